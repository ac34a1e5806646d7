from .bias_diagrams import BiasDiagram as BiasDiagram
from .columns import column_width as column_width
from .phase_diagram import PhaseDiagram as PhaseDiagram
from .phase_tables import PhaseTable as PhaseTable
from .phase_tables import ScheduledLaw as ScheduledLaw
from .tables import Table as Table

from .answer import Recommendation as Recommendation
from .rates import TuningRates as TuningRates
from .rates import tuning_rates as tuning_rates
from .rates import tuning_region as tuning_region
from .transformer_answer import TransformerRecommendation as TransformerRecommendation
from .tuned import Tuning as Tuning

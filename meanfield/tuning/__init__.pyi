from .answer import Recommendation as Recommendation
from .gain_records import Gains as Gains
from .gain_records import SoftmaxGains as SoftmaxGains
from .rates import TuningRates as TuningRates
from .rates import tuning_rates as tuning_rates
from .rates import tuning_region as tuning_region
from .transformer_answer import TransformerRecommendation as TransformerRecommendation
from .tuned import Tuning as Tuning

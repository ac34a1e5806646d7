from .function_gains.gain_records import Gains as Gains
from .function_gains.gain_records import SoftmaxGains as SoftmaxGains
from .network_gains.rates import TuningRates as TuningRates
from .network_gains.rates import tuning_rates as tuning_rates
from .network_gains.rates import tuning_region as tuning_region
from .network_gains.tuned import Tuning as Tuning
from .recommendation.answer import Recommendation as Recommendation
from .recommendation.transformer_answer import TransformerRecommendation as TransformerRecommendation

from .trained import Prediction as Prediction

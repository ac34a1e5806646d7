from .estimators import NTKClassifier as NTKClassifier
from .estimators import NTKRegressor as NTKRegressor

import numpy as np
import polars as pl
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import trainwright as tw

draw = np.random.default_rng(0)
age, city = draw.integers(18, 81, size=300), draw.choice(["Bern", "Genoa", "Lyon"], size=300)
bought = np.where(age + 20 * (city == "Lyon") + draw.normal(0, 15, size=300) > 60, "yes", "no")
people = pl.DataFrame({"age": age, "city": city})

trees = tw.Classifier({"kind": "boosting", "max_trees": 40}, metric="log_loss")
search = GridSearchCV(trees, {"model__num_leaves": [2, 8]}, scoring="roc_auc", cv=3)
search.fit(people, bought)
best = search.best_estimator_
print(f"{search.best_params_}: roc_auc {search.best_score_:.2f} over 3 folds")
print(f"{best.classes_}, {best.feature_names_in_}: {best.predict_proba(people[:1]).round(2)}")

line = make_pipeline(StandardScaler(), tw.Regressor("linear"))
scores = cross_val_score(line, age[:, None], 2 * age + draw.normal(size=300), cv=3)
print(f"R2 {scores.mean():.3f}")

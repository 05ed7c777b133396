"""What storing the weights in fewer bits costs; the library behind `kazeia quality`.

from kazeia.quality import QualityPlan, assess_quality

report = assess_quality("path/to/checkpoint", QualityPlan(quants=("q8", "q4")))
print(report.markdown())
"""

from kazeia.quality.assess import QualityPlan, assess_quality
from kazeia.quality.judge import Judge, open_judge
from kazeia.quality.report import FormatQuality, QualityReport

__all__ = ["FormatQuality", "Judge", "QualityPlan", "QualityReport", "assess_quality", "open_judge"]

"""What the toy needs of a start."""

from nbdist.launch.model.framework import Answers, FrameworkLaunch, Rendezvous
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.notation import count_text


class Toy(FrameworkLaunch):
    """Launch side of the toy framework; methods as in `nbdist.launch.model.framework.FrameworkLaunch`."""

    name = "toy"
    title = "Toy"

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Its number."""
        return {"TOY_RANK": str(process.process_id)}

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """How many have come."""
        return count_text(len(answers), "toy")


FRAMEWORK = Toy()

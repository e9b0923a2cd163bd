"""The adapter conformance suite: what every adapter has to fulfil, built in or a third party's, as pure checks.

An adapter and its example calls go in, findings come out; pytest and `lifebus contract conform` run the same checks.
"""

from lifebus_adapters.conformance.examples import Example, load_examples
from lifebus_adapters.conformance.subject import Check, Subject
from lifebus_adapters.conformance.suite import CHECKS, CheckFinding, examine

__all__ = ["CHECKS", "Check", "CheckFinding", "Example", "Subject", "examine", "load_examples"]

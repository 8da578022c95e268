"""The drivers' mutants that random programs do not kill, each with the reason. At night all others must die.

``python -m mutants.random_programs FILE`` counts them again, and names those that die although they stand here.
"""

from __future__ import annotations

from mutants import MUTANTS

DRIVERS = [each for each in MUTANTS if not each.patches]
"""The mutants that break a driver: the others break the core, for all drivers alike."""

_BY_REASON = {
    "programs set no faults on the way to a server": (
        "AnswersFromNowhere", "BlamesTheNetwork", "CallsTheUnknownFailed", "CallsTheUnknownStored", "ConnectsAnyway",
        "ConnectsLate", "ConnectsUntyped", "ConnectsVaguely", "HangsWhileAway", "NeverStopsTalking", "SaysNothing",
        "SendsAgainAfterAReset", "TakesTheAnswerOfAnother",
    ),
    "programs fill, damage and copy no disks": (
        "CopiesHalf", "FullDiskIsADeadEnd", "FullDiskTakesMore", "IsNotSureThatItIsFull", "LosesWithItsNode",
        "OneStoreForBoth", "PassesOverTheDamaged", "ServesTheDamaged", "ServesTheTorn",
    ),
    "only the time shows it, and the model does not measure that": (
        "AsksForFiveSeconds", "GivesUpEarly", "LooksOnlyNowAndThen", "LosesAWakeUp", "NapsWhenAsked", "Sluggish",
        "TakesItsTime", "TellsOfADeletedTopicInSilence",
    ),
    "programs make one call after the other": (
        "InsistsOnItsOwn", "LosesAmongSenders", "NeverWakes", "ReleasesBeforeItCommits", "SwallowsCtrlC",
    ),
    "programs are short, and have few topics and small messages": (
        "ClaimsToStore", "CutsTheLargest", "Hoards", "LosesOneInThousands", "ReadsSixteenTopics",
        "StoresAHundredRuns", "StoresFewerRunsThanDeclared",
    ),
    "programs do not look at threads and files": ("KeepsAFileUntilCollected", "LeavesAThread"),
    "programs send records, not columns": ("ReadsArrowBuffersLater",),
    "programs read no topics by pattern": ("DropsAllForANewTopic",),
    "programs wait for no retention": ("AltersTheDescription", "KeepsEverything"),
    "the model allows what a backend may do in a topic that was created again": (
        "CommitsByName", "KeepsToTheOld", "NamesTheOld", "SaysNotWhichTopicIsGone", "StoresInTheDeleted",
    ),
    "an outage needs members without nacked messages": ("ForgetsAttemptsInAnOutage",),
    "a hundred programs were too few": (
        "AcksAreGone", "BehindTheRemovedIsLost", "ByKeyWithoutADeadline", "CountsBackBeyondLow", "CountsNoLateAcks",
        "DiscardsNothing", "EmptyKeysGoAnywhere", "ForgetsNumbersInAnOutage", "ForgetsTheLastOfMany",
        "ForgetsWhatWasAckedBehindTheGap", "GroupsMoveToTheEndAtMost", "HandsOverWithoutGaps", "HoldsEverybodyBack",
        "KeysAnywhere", "KnowsNoDeadline", "LastOfATrimmedIsOneShort", "LooksAtTheFirstTopic", "MovesWithoutGaps",
        "NeverRests", "NumbersGoWithTheClient", "OffsetsOf32Bits", "OffsetsOf64Bits", "OnlyOneRange",
        "RemembersLateAcks", "SeekForgetsWhatIsAhead", "SkipsAfterAFullBatch", "StagesAreGoneAfterARestart",
        "TakesAcksFromAnybody",
    ),
}  # fmt: skip

SURVIVORS = {name: reason for reason, names in _BY_REASON.items() for name in names}
"""The reason of each survivor."""

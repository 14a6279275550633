package step_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// spec says which tests hold which row of swiftagent.md: first the table of steps and what modifies them, then the rules
// of its chapters.
var spec = []struct{ row, tests string }{
	{"Transform, Func", "TestStepIsAFunctionOrAnythingThatRuns"},
	{"Generate", "TestGenerateMakesAValue TestGenerateGivesUpAfterTwoAnswers TestTypeWithoutAFormIsAnError"},
	{"GenerateText", "TestGenerateTextAsksTheModelOfTheContext TestAnswerThatWasCutOrRefusedIsNone"},
	{"EmptyStep", "TestEmptyGivesWhatItIsGiven"},
	{"Join", "TestJoinPutsTextsTogether"},
	{"Gate", "TestGatePassesChangesOrBlocks"},
	{"Chain2-8", "TestChainsOfTwoToEightStepsChangeTypes"},
	{"Pipeline", "TestPipelineIsAssociative TestPipelineEndsWithTheFirstError TestPipelineEndsWithItsContext"},
	{"Parallel", "TestRaceAndParallelCancelAndWait"},
	{"Race", "TestRaceAndParallelCancelAndWait"},
	{"Loop", "TestLoopHasAConditionAndALimit"},
	{"Map", "TestMapOverFuncEqualsALoop TestMapCancelsOnlyWhatComesBehindAFailure"},
	{"Reduce", "TestReduceMakesOneOfMany"},
	{"Monitor", "TestMonitorIsToldOfEachRun"},
	{"TracingStep", "TestTraceNamesErrorsAndTellsSpans TestSpanBelongsToTheCallAroundIt"},
	{"AnyStep", "TestAnyChecksTypesWhenItRuns"},
	{"retry", "TestRetryTriesAgain TestRetryEndsWithItsContext"},
	{"timeout", "TestTimeoutEndsAStep"},
	{"catch", "TestCatchReplacesAnError TestCatchLeavesTheEndOfTheContext"},
	{"emit", "TestEventsAreEmittedBeforeAndAfterAStep"},
	{"guardrail", "TestGuardrailsNestAroundSteps"},
	{"context", "TestValueIsThereForWhatIsInside"},

	{"Race: the first success, failures wait for the others, losers are cancelled", "TestRaceAndParallelCancelAndWait"},
	{"Race: all failed is an error", "TestErrorsOfARaceAreAllThere"},
	{"Race: a timeout fails at once", "TestRaceWhoseContextEndsFailsWithItsCause TestRaceDoesNotBeginWhenItsContextHasEnded"},
	{"Parallel: all successes, although some fail", "TestParallelFailsOnlyWhenAllHaveFailed"},
	{"Parallel: allStepsFailed only when all have", "TestParallelFailsOnlyWhenAllHaveFailed"},
	{"Parallel: in the order in which they end", "TestParallelGivesResultsInTheOrderTheyEndWithTheirIndex"},
	{"Memory: a value and its relay", "TestMemoryIsReadAndWrittenThroughItsRelay TestMemoryAnswerStaysUnchanged TestMemoryUnderConcurrentUpdatesLosesNone"},
	{"Relay: insert, contains, formUnion", "TestMemorySetInsertsContainsAndUnites"},
	{"Relay: append", "TestMemoryListAppends"},
	{"Relay: increment, decrement, add", "TestMemoryNumberCountsUpAndDown"},
	{"Relay: map with reverse, readOnly, constant", "TestRelaysAreDerived TestZeroRelayIsTheConstantZero"},
	{"Gate: pass and block; GateError; passthrough and block as factories", "TestGatePassesChangesOrBlocks"},
	{"Event: before, after, payload", "TestEventsAreEmittedBeforeAndAfterAStep"},
	{"Event: the bus and its listeners", "TestListenerCannotBlockOrBreakAStep TestListenerThatIsOffHearsNoMore TestEventsReachListenersOfCall TestEventsReachWhoWatchesTheToolCall"},
	{"Context: a default, several, the nearest", "TestValueIsThereForWhatIsInside TestValueEndsWithItsStep TestReaderHasADefaultForAForeignType TestMisuseDoesNotCompile"},
	{"Session: of the context", "TestGenerateTextAsksTheModelOfTheContext TestSessionIsToldWhatItsAnswersCost"},
	{"Guardrail: Allow, Deny, Deny.final, Override, AskUser, presets, conditions, nested", "TestGuardrailsNestAroundSteps TestGuardrailHoldsForItsStepAlone TestGuardrailThatCannotBeReadLetsNothingRun"},
	{"Guardrail: Sandbox", "TestSandboxOfAGuardrailHoldsInside"},
}

func TestSpecRowsNameExistingTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				there[f.Name.Name] = true
			}
		}
	}
	for _, s := range spec {
		tests := strings.Fields(s.tests)
		if len(tests) == 0 {
			t.Errorf("%s: no test", s.row)
		}
		for _, name := range tests {
			if !there[name] {
				t.Errorf("%s: there is no %s", s.row, name)
			}
		}
	}
}

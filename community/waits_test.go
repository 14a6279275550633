package community_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clockCalls wait, or end a wait, by the clock of the machine.
var clockCalls = words(`time.After time.AfterFunc time.NewTimer time.NewTicker time.Tick time.Sleep net.DialTimeout
	context.WithTimeout context.WithTimeoutCause context.WithDeadline context.WithDeadlineCause`)

// clockUsers are functions of tests that use the clock of the machine, with the reason why no machine is too slow for them.
var clockUsers = map[string]string{
	"agent/conversation/conversation_test.go tools":                                                     "how long a tool works that the examples do not call",
	"internal/agent/llm/llmtest/suite_test.go endsWithTheContext":                                       "input: the deadline of a call that is never answered",
	"internal/agent/node/exec/command_test.go TestCommandEndsWithItsCallAndItsChildrenWithIt":           "input: when a command that would run for a day has to end",
	"cmd/symbio/symbiotest/main.go Pause":                                                               "how long something lasts that the test does; nothing fails by it",
	"cmd/symbio/symbiotest/strict_model.go StrictModel.ServeHTTP":                                       "how long the model takes for an answer",
	"cmd/symbio/systemtest/crash/kill_nine_test.go killAtMoments":                                       "input: the random moment of a kill",
	"cmd/symbio/systemtest/work/kill_nine_map_test.go TestItemsOfMapKilledAtAnyMomentAreDoneOnceOrLost": "input: the random moment of a kill",
	"cmd/symbio/systemtest/lan/lan_rogue_test.go rogueOrder.carryOut":                                   "how quickly the attacker sends",
	"cmd/symbio/systemtest/mdns/host_test.go ask":                                                       "for how long answers are collected; who wants one asks again",
	"cmd/symbio/systemtest/mdns/library_test.go TestLibraryGaps":                                        "input: the context that the library does not heed",
	"cmd/symbio/systemtest/sandbox/fuzzshell/fuzz_test.go place.run":                                    "some scripts hold up their driver; of those that are ended early less is seen",
	"cmd/symbio/systemtest/soak/soak_load_test.go load.call":                                            "input: the deadlines of the calls",
	"cmd/symbio/systemtest/soak/soak_test.go soak.until":                                                "how long a fault lasts",
	"discovery/mdns/lan_test.go lan.unicast":                                                            "how long a packet is under way, in bubbles",
	"security/permission/bash_unix_test.go differential.runReal":                                        "some scripts never end; of one that is ended early less is seen",
	"security/permission/bash_unix_test.go differential.watch":                                          "some scripts never end; of one that is ended early less is seen",
	"security/sandbox/run_linux_test.go TestSandboxEndsSetsidDaemon":                                    "input: when a command that would run for a day has to end",
	"transport/grpcpeer/grpcpeertest/packets.go packetConn.WriteTo":                                     "input: how long a packet is under way",
	"transport/grpcpeer/grpcpeertest/wire.go delayLine.Read":                                            "input: how long bytes are under way",
	"transport/grpcpeer/grpcpeertest/pipe.go deadline.set":                                              "the deadline that the product gives to a connection",
}

// A wait with a limit of its own fails on a machine that is slower than its writer thought. In a bubble of testing/synctest
// the time does not depend on the machine. Benchmarks measure the machine, and package waittest reads its clock.
func TestCodeWaitsForEventsNotClocks(t *testing.T) {
	used := map[string]bool{}
	for _, d := range outsideBubbles(sources(t)) {
		name, folder := d.file.path+" "+d.name, path.Dir(d.file.path)
		if len(d.clocks) == 0 || folder == "internal/community/waittest" {
			continue
		}
		if used[name] = true; clockUsers[name] != "" {
			continue
		}
		for _, call := range d.clocks {
			t.Errorf("%s, run by %s: wait for the event, by internal/community/waittest, or in a bubble of testing/synctest", call, d.reason)
		}
	}
	for name := range clockUsers {
		if !used[name] {
			t.Errorf("%s uses no clock outside of a bubble: strike it out", name)
		}
	}
}

// clockUse returns by what a node ends a wait, or judges one, by the clock of the machine; "" if it does not.
func clockUse(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := calledName(n)
		if slices.Contains(clockCalls, name) || setDeadline.MatchString(name) && calls(n.Args[0]) {
			return name
		}
	case *ast.ForStmt:
		if n.Cond != nil && now(n.Cond) {
			return "a loop that ends by time"
		}
	case *ast.IfStmt:
		if now(n.Cond) && calls(n.Cond, ".After", ".Before") || has(n.Cond, isTimeLimit) {
			return "a limit of the time that something took"
		}
	case *ast.CompositeLit:
		t, ok := n.Type.(*ast.SelectorExpr)
		limited := func(n ast.Node) bool { id, ok := n.(*ast.Ident); return ok && id.Name == "Timeout" }
		if ok && (t.Sel.Name == "Dialer" || t.Sel.Name == "Client") && has(n, limited) {
			return t.Sel.Name + ".Timeout"
		}
	}
	return ""
}

// now reports whether a node reads the clock.
func now(n ast.Node) bool { return calls(n, "time.Now", "time.Since", "time.Until") }

// isTimeLimit reports whether a node is a comparison that a time which something took can be too long for.
func isTimeLimit(n ast.Node) bool {
	c, ok := n.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	measured := func(e ast.Expr) bool {
		if id, ok := e.(*ast.Ident); ok && id.Obj != nil {
			assigned, ok := id.Obj.Decl.(*ast.AssignStmt)
			return ok && calls(assigned, "time.Since")
		}
		return now(e)
	}
	return (c.Op == token.GTR || c.Op == token.GEQ) && measured(c.X) || (c.Op == token.LSS || c.Op == token.LEQ) && measured(c.Y)
}

var setDeadline = regexp.MustCompile(`\.Set(Read|Write)?Deadline$`)

// has reports whether a node has one in it that satisfies is.
func has(n ast.Node, is func(ast.Node) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || is(n)
		return !found
	})
	return found
}

// calls reports whether a node has a call, of one of the names if there are any.
func calls(n ast.Node, names ...string) bool {
	return has(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && (len(names) == 0 || slices.Contains(names, calledName(call)))
	})
}

func TestCodeThatWaitsByClockIsFound(t *testing.T) {
	text := `package x_test
func TestSleeps(t *testing.T) { time.Sleep(1) }
func TestRuns(t *testing.T) { t.Run("", func(t *testing.T) { <-time.After(1) }); synctest.Test(t, func(t *testing.T) {}) }
func TestLoops(t *testing.T) { for time.Now().Before(end) {} }
func TestJudges(t *testing.T) { if took := time.Since(begun); err == nil || took > time.Second {} }
func TestJudgesLater(t *testing.T) { took := time.Since(begun); end(); if time.Second < took {} }
func TestLooks(t *testing.T) { for { if time.Now().After(end) {} } }
func TestReads(t *testing.T) { conn.SetReadDeadline(begun.Add(time.Minute)) }
func TestDials(t *testing.T) { _ = net.Dialer{Timeout: 1} }
func TestLeads(t *testing.T) { both(); _ = &fake{} }
func both() { time.Sleep(1) }
func (fake) Exported() { time.Sleep(1) }

func TestBubble(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1); both(); inside(); fake{}.unexported() }) }
func TestTable(t *testing.T) { for _, f := range []func(){func() { time.Sleep(1) }, inside} { synctest.Test(t, func(t *testing.T) { f() }) } }
func TestHelper(t *testing.T) { helper(t, func() { time.Sleep(1) }) }
func TestLocalName(t *testing.T) { inside := 1; _ = inside; _ = config{inside: 1}; conn.SetDeadline(at) }
func TestLeast(t *testing.T) { if took := time.Since(begun); took < time.Second {} }
func BenchmarkSleeps(b *testing.B) { time.Sleep(1) }
func helper(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }
func inside() { time.Sleep(1) }
type fake struct{}
func (fake) unexported() { time.Sleep(1) }
`
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "x_test.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range outsideBubbles([]*sourceFile{{path: "x_test.go", parsed: parsed, set: set}}) {
		if len(d.clocks) > 0 {
			got = append(got, d.name)
		}
	}
	if diff := cmp.Diff(words("TestSleeps TestRuns TestLoops TestJudges TestJudgesLater TestLooks TestReads TestDials both fake.Exported"), got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

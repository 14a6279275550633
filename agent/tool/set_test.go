package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/security/permission/file"
	"symbio/security/permission"
)

// by is a guard of fixed answers, by tool; others are denied.
type by map[string]permission.Action

func (b by) Judge(c permission.Call) permission.Verdict {
	return permission.Verdict{Action: b[c.Tool], Link: "ann", Rule: c.Tool, Why: "The test says so."}
}

// plain makes a tool without arguments.
func plain(name string, run func(context.Context) tool.Result) tool.Tool {
	return tool.New(tool.Spec{Name: name}, func(ctx context.Context, _ struct{}) tool.Result { return run(ctx) })
}

func alone(name string, run func(context.Context) tool.Result) tool.Tool {
	return tool.New(tool.Spec{Name: name, Alone: true}, func(ctx context.Context, _ struct{}) tool.Result { return run(ctx) })
}

func says(text string) func(context.Context) tool.Result {
	return func(context.Context) tool.Result { return tool.Result{Text: text} }
}

func calls(names ...string) []llm.ToolCall {
	var all []llm.ToolCall
	for i, n := range names {
		all = append(all, llm.ToolCall{ID: fmt.Sprint(i), Name: n, Args: json.RawMessage(`{}`)})
	}
	return all
}

func TestNoToolRunsWithoutTheGuardsWord(t *testing.T) {
	ran := map[string]int{}
	note := func(name string) tool.Tool {
		return plain(name, func(context.Context) tool.Result { ran[name]++; return tool.Result{Text: "ran"} })
	}
	tools := []tool.Tool{note("allowed"), note("denied"), note("asked")}
	guard := by{"allowed": permission.Allow, "asked": permission.Ask}
	yes := func(context.Context, tool.Decision) tool.Answer { return tool.Answer{Allow: true} }
	no := func(context.Context, tool.Decision) tool.Answer { return tool.Answer{} }
	for name, c := range map[string]struct {
		cfg  tool.SetConfig
		want map[string]int
	}{
		"no guard":            {tool.SetConfig{Ask: yes}, map[string]int{}},
		"nobody to ask":       {tool.SetConfig{Guard: guard}, map[string]int{"allowed": 1}},
		"the person agrees":   {tool.SetConfig{Guard: guard, Ask: yes}, map[string]int{"allowed": 1, "asked": 1}},
		"the person does not": {tool.SetConfig{Guard: guard, Ask: no}, map[string]int{"allowed": 1}},
		"an empty chain":      {tool.SetConfig{Guard: permission.Chain{}, Ask: yes}, map[string]int{}},
	} {
		clear(ran)
		c.cfg.Parallel = 1
		results := tool.NewSet(c.cfg, tools...).Run(t.Context(), calls("allowed", "denied", "asked"))
		for i, n := range []string{"allowed", "denied", "asked"} {
			if ran[n] != c.want[n] {
				t.Errorf("%s: %s ran %d times, want %d", name, n, ran[n], c.want[n])
			}
			if refused := strings.HasPrefix(results[i].Text, "Denied"); refused != (c.want[n] == 0) || results[i].IsError != refused {
				t.Errorf("%s: %s: result %+v, want it refused: %v", name, n, results[i], c.want[n] == 0)
			}
		}
	}
}

func TestRefusalSaysWhatAPersonWouldHaveToChange(t *testing.T) {
	ask, deny := permission.Policy{Default: permission.Ask}, permission.Policy{FinalDeny: []permission.Rule{{}}, Default: permission.Allow}
	said := func(context.Context, tool.Decision) tool.Answer { return tool.Answer{By: "bob"} }
	for name, c := range map[string]struct {
		cfg           tool.SetConfig
		want, without string
	}{
		"nobody to ask":      {tool.SetConfig{Guard: permission.Chain{{Policy: ask}}}, "To allow it, add to allow: a. Only a person can do that.", ""},
		"a final denial":     {tool.SetConfig{Guard: permission.Chain{{Policy: deny}}}, "No rule changes this", "Only a person"},
		"a person has said":  {tool.SetConfig{Guard: permission.Chain{{Policy: ask}}, Ask: said}, "The person said no.", "add to allow"},
		"a guard that can't": {tool.SetConfig{Guard: by{}}, "The test says so.", "add to allow"},
	} {
		text := tool.NewSet(c.cfg, plain("a", says("ran"))).Run(t.Context(), calls("a"))[0].Text
		if !strings.Contains(text, c.want) || c.without != "" && strings.Contains(text, c.without) {
			t.Errorf("%s: got %q, want %q in it and not %q", name, text, c.want, c.without)
		}
	}
}

func TestDecisionIsReportedBeforeToolRuns(t *testing.T) {
	var log []string
	cfg := tool.SetConfig{
		Guard: by{"a": permission.Allow, "b": permission.Ask, "c": permission.Ask}, Agent: "ann",
		Ask: func(_ context.Context, d tool.Decision) tool.Answer {
			log = append(log, "ask "+d.Tool)
			return tool.Answer{Allow: d.Tool == "b", By: "bob"}
		},
		OnDecision: func(d tool.Decision) error {
			log = append(log, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %v %s", d.Agent, d.CallID, d.Tool, d.Verdict.Action,
				d.Approved, d.By)))
			return nil
		},
	}
	run := func(name string) tool.Tool {
		return alone(name, func(context.Context) tool.Result { log = append(log, "run "+name); return tool.Result{} })
	}
	tool.NewSet(cfg, run("a"), run("b"), run("c"), run("d")).Run(t.Context(), calls("a", "b", "c", "d"))
	want := []string{"ann 0 a allow true", "run a", "ask b", "ann 1 b ask true bob", "run b", "ask c", "ann 2 c ask false bob",
		"ann 3 d deny false"}
	if !slices.Equal(log, want) {
		t.Errorf("got  %q\nwant %q", log, want)
	}
}

func TestDecisionThatCannotBeRecordedRunsNothing(t *testing.T) {
	ran := false
	cfg := tool.SetConfig{Guard: by{"a": permission.Allow}, OnDecision: func(tool.Decision) error { return errors.New("the disk is full") }}
	results := tool.NewSet(cfg, plain("a",
		func(context.Context) tool.Result { ran = true; return tool.Result{} })).Run(t.Context(), calls("a"))
	if ran || !results[0].IsError || !strings.Contains(results[0].Text, "could not be recorded") ||
		strings.Contains(results[0].Text, "disk") {
		t.Errorf("ran %v, result %+v", ran, results[0])
	}
}

func TestReasonOfANoReachesTheModel(t *testing.T) {
	cfg := tool.SetConfig{Guard: by{"a": permission.Ask},
		Ask: func(context.Context, tool.Decision) tool.Answer { return tool.Answer{Why: "It took too long."} }}
	results := tool.NewSet(cfg, plain("a", func(context.Context) tool.Result { return tool.Result{} })).Run(t.Context(), calls("a"))
	if !strings.Contains(results[0].Text, "It took too long.") {
		t.Errorf("result %+v", results[0])
	}
}

func TestGuardSeesWhatTheToolGets(t *testing.T) {
	var got greeting
	var seen permission.Call
	guard := guardFunc(func(c permission.Call) permission.Verdict {
		seen = c
		return permission.Verdict{Action: permission.Allow}
	})
	s := tool.NewSet(tool.SetConfig{Guard: guard, Dir: "/work"}, greet(&got))
	s.Run(t.Context(), []llm.ToolCall{{Name: "greet", Args: json.RawMessage(`{"name":"ann","times":2}`)}})
	if seen.Tool != "greet" || seen.Dir != "/work" || seen.Args["name"] != got.Name || seen.Args["times"] != int64(got.Times) ||
		got.Name != "ann" {
		t.Errorf("the guard saw %+v, the tool got %+v", seen, got)
	}
}

type guardFunc func(permission.Call) permission.Verdict

func (g guardFunc) Judge(c permission.Call) permission.Verdict { return g(c) }

func TestCallsRunBesideEachOtherAndAnswerInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		slow := tool.New(tool.Spec{Name: "slow"}, func(_ context.Context, a struct {
			Seconds int `json:"seconds"`
		}) tool.Result {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Duration(a.Seconds) * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return tool.Result{Text: fmt.Sprint(a.Seconds)}
		})
		var cs []llm.ToolCall
		for i := range 20 {
			cs = append(cs, llm.ToolCall{ID: fmt.Sprint(i), Name: "slow", Args: json.RawMessage(fmt.Sprintf(`{"seconds":%d}`, 20-i))})
		}
		for i, r := range tool.NewSet(tool.SetConfig{Guard: by{"slow": permission.Allow}}, slow).Run(t.Context(), cs) {
			if r.CallID != fmt.Sprint(i) || r.Text != fmt.Sprint(20-i) || r.IsError {
				t.Errorf("result %d is %+v", i, r)
			}
		}
		if most != 8 {
			t.Errorf("%d ran at once, want 8", most)
		}
	})
}

func TestCallThatHasToBeAloneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
		work := func(name string) func(context.Context) tool.Result {
			return func(context.Context) tool.Result {
				note("+" + name)
				time.Sleep(time.Second)
				note("-" + name)
				return tool.Result{}
			}
		}
		cfg := tool.SetConfig{Guard: by{"p": permission.Allow, "q": permission.Allow},
			OnDecision: func(d tool.Decision) error { note("?" + d.Tool); return nil }}
		tool.NewSet(cfg, plain("p", work("p")), alone("q", work("q"))).Run(t.Context(), calls("p", "p", "q", "q", "p"))
		want := "?p ?p +p +p -p -p ?q +q -q ?q +q -q ?p +p -p"
		if got := strings.Join(log, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestToolFailureIsResult(t *testing.T) {
	guard := by{"boom": permission.Allow, "quit": permission.Allow, "fine": permission.Allow, "greet": permission.Allow}
	s := tool.NewSet(tool.SetConfig{Guard: guard},
		plain("fine", says("ok")), greet(new(greeting)),
		plain("boom", func(context.Context) tool.Result { panic("a bug") }),
		plain("quit", func(context.Context) tool.Result { runtime.Goexit(); return tool.Result{} }))
	results := s.Run(t.Context(), calls("boom", "quit", "nosuch", "greet", "fine"))
	for i, want := range []string{"The tool boom broke down: a bug", "The tool quit broke down", `no tool "nosuch". The tools are: fine, greet, boom, quit.`, `"name" is missing`} {
		if r := results[i]; !r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("result %d: %+v, want an error with %q", i, r, want)
		}
	}
	if r := results[4]; r.IsError || r.Text != "ok" {
		t.Errorf("the one that works: %+v", r)
	}
}

func TestBrokenGuardOrListenerRunsNothing(t *testing.T) {
	ran := false
	one := plain("x", func(context.Context) tool.Result { ran = true; return tool.Result{} })
	for name, cfg := range map[string]tool.SetConfig{
		"guard":    {Guard: guardFunc(func(permission.Call) permission.Verdict { panic("guard") })},
		"listener": {Guard: by{"x": permission.Allow}, OnDecision: func(tool.Decision) error { panic("listener") }},
		"asker":    {Guard: by{"x": permission.Ask}, Ask: func(context.Context, tool.Decision) tool.Answer { panic("asker") }},
	} {
		if r := tool.NewSet(cfg, one).Run(t.Context(), calls("x"))[0]; ran || !r.IsError {
			t.Errorf("%s: ran %v, result %+v", name, ran, r)
		}
	}
}

func TestEndedContextEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waits := plain("waits", func(ctx context.Context) tool.Result {
			<-ctx.Done()
			return tool.Result{Text: "gave up", IsError: true}
		})
		after := alone("after", says("must not run"))
		results := tool.NewSet(tool.SetConfig{Guard: by{"waits": permission.Allow, "after": permission.Allow}}, waits, after).Run(ctx,
			calls("waits", "after"))
		if results[0].Text != "gave up" || !results[1].IsError || !strings.Contains(results[1].Text, "did not run") {
			t.Errorf("got %+v", results)
		}
	})
}

func TestPersonIsNotWaitedForWhenTheTurnEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	cfg := tool.SetConfig{Guard: by{"x": permission.Ask},
		Ask: func(context.Context, tool.Decision) tool.Answer { cancel(); return tool.Answer{Allow: true} }}
	one := plain("x", func(context.Context) tool.Result { ran = true; return tool.Result{} })
	if r := tool.NewSet(cfg, one).Run(ctx, calls("x"))[0]; ran || !r.IsError {
		t.Errorf("ran %v, result %+v", ran, r)
	}
}

func TestToolLearnsItsDirectoryAndWhatToLeaveOut(t *testing.T) {
	except := &file.Except{}
	guard := guardFunc(func(permission.Call) permission.Verdict {
		return permission.Verdict{Action: permission.Allow, Except: except}
	})
	one := plain("x", func(ctx context.Context) tool.Result {
		return tool.Result{Text: fmt.Sprint(tool.Dir(ctx), tool.Except(ctx) == except)}
	})
	if r := tool.NewSet(tool.SetConfig{Guard: guard, Dir: "/w"}, one).Run(t.Context(), calls("x"))[0]; r.Text != "/wtrue" {
		t.Errorf("got %+v", r)
	}
}

func TestSpecsComeInTheOrderGivenAndOnce(t *testing.T) {
	s := tool.NewSet(tool.SetConfig{}, plain("b", says("1")), plain("a", says("2")), plain("b", says("3")))
	var names []string
	for _, spec := range s.Specs() {
		names = append(names, spec.Name)
	}
	if !slices.Equal(names, []string{"b", "a"}) {
		t.Errorf("got %q", names)
	}
}

func TestLongResultKeepsItsBeginningAndItsEnd(t *testing.T) {
	long := "first line\n" + strings.Repeat("é", 50_000) + "\nlast line"
	s := tool.NewSet(tool.SetConfig{Guard: by{"x": permission.Allow}, MaxText: 1001}, plain("x", says(long)))
	got := s.Run(t.Context(), calls("x"))[0].Text
	if !strings.HasPrefix(got, "first line\n") || !strings.HasSuffix(got, "\nlast line") || len(got) > 1300 || !utf8.ValidString(got) {
		t.Errorf("got %d bytes: %.40q … %q", len(got), got, got[len(got)-40:])
	}
	var cut, whole int
	_, note, _ := strings.Cut(got, "\n[")
	if _, err := fmt.Sscanf(note, "%d of %d bytes are cut out", &cut, &whole); err != nil || whole != len(long) {
		t.Errorf("the note %.60q does not say how much is missing: %v", note, err)
	}
	kept := len(got) - len("\n["+note[:strings.Index(note, "\n")+1])
	if kept+cut != whole {
		t.Errorf("%d bytes kept and %d cut are not %d", kept, cut, whole)
	}
	if got := tool.Shorten("a\xffb", 100); got != "a\ufffdb" {
		t.Errorf("not UTF-8: got %q", got)
	}
}

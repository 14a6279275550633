package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/community"
)

// tasking is a server with a tool "t" that has to be a task, and one "o" that may be.
type tasking struct {
	fake
	offers string // its capabilities about tasks
	// call, get and result answer tools/call, tasks/get (the n-th, from 0) and tasks/result.
	call   func(params string) any
	get    func(n int) any
	result any

	mu    sync.Mutex
	asks  []string // "METHOD PARAMS"
	times []time.Time
}

const (
	allOfTasks = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	working    = `{"taskId":"a","status":"working","pollInterval":2000}`
)

func said(text string) json.RawMessage { return json.RawMessage(text) }

func newTasking() *tasking {
	s := &tasking{offers: allOfTasks, result: text("done")}
	s.call = func(string) any { return said(`{"task":` + working + `}`) }
	s.get = func(n int) any {
		if n < 2 {
			return said(working)
		}
		return said(`{"taskId":"a","status":"completed"}`)
	}
	s.answer = s.reply
	return s
}

func (s *tasking) reply(method string, params json.RawMessage) any {
	switch method {
	case "initialize":
		return said(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"tasks":` + s.offers + `},"serverInfo":{"name":"fake","version":"1"}}`)
	case "tools/list":
		must, may := described("t", "x"), described("o", "x")
		must["execution"], may["execution"] = map[string]any{"taskSupport": "required"}, map[string]any{"taskSupport": "optional"}
		return map[string]any{"tools": []any{must, may}}
	}
	s.mu.Lock()
	n := 0
	for _, a := range s.asks {
		if strings.HasPrefix(a, method+" ") {
			n++
		}
	}
	s.asks = append(s.asks, method+" "+string(params))
	if method == "tasks/get" {
		s.times = append(s.times, time.Now())
	}
	s.mu.Unlock()
	switch method {
	case "tools/call":
		return s.call(string(params))
	case "tasks/get":
		return s.get(n)
	case "tasks/result":
		return s.result
	case "tasks/cancel":
		return said(`{"taskId":"a","status":"cancelled"}`)
	}
	return nil
}

// asked are the questions of a method, as their params.
func (s *tasking) asked(method string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, a := range s.asks {
		if params, ok := strings.CutPrefix(a, method+" "); ok {
			all = append(all, params)
		}
	}
	return all
}

// called calls a tool of s in a bubble, and returns what came of it, what was told and after how long.
func called(t *testing.T, s *tasking, name string, cfg Config, meanwhile func()) (answer Answer, told []community.Progress, took time.Duration, err error) {
	bubbled(t, cfg, s.open, func(t *testing.T, ctx context.Context, m *Manager) {
		one, e := m.Tool(ctx, "s", name)
		if e != nil {
			t.Fatal(e)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		if meanwhile != nil {
			wg.Go(meanwhile)
		}
		began := time.Now()
		var mu sync.Mutex
		answer, err = one.Call(ctx, map[string]any{"a": 1}, func(p community.Progress) { mu.Lock(); defer mu.Unlock(); told = append(told, p) })
		took = time.Since(began)
		synctest.Wait() // the last progress may come with the answer
	})
	return answer, told, took, err
}

func TestToolThatHasToBeATaskIsCalledAsOne(t *testing.T) {
	s := newTasking()
	answer, told, took, err := called(t, s, "t", Config{CallTimeout: time.Hour}, nil)
	if err != nil || answer.Text != "done" || answer.IsError || took != 6*time.Second || len(told) != 0 {
		t.Errorf("got %+v, %v, %v after %v; want it done after three pauses of 2s", answer, err, told, took)
	}
	if got := s.asked("tools/call"); len(got) != 1 || !strings.Contains(got[0], `"task":{"ttl":3660000}`) || !strings.Contains(got[0], `"arguments":{"a":1}`) {
		t.Errorf("the call: got %q, want it with its arguments and a task that outlives the hour", got)
	}
	for _, method := range []string{"tasks/get", "tasks/result"} {
		if got := s.asked(method); len(got) == 0 || got[0] != `{"taskId":"a"}` {
			t.Errorf("%s: got %q", method, got)
		}
	}
	if got := s.asked("tasks/cancel"); len(got) != 0 {
		t.Errorf("cancelled: %q", got)
	}
}

func TestOnlyAToolThatHasToBeATaskIsMadeOne(t *testing.T) {
	for _, c := range []struct{ name, tool, offers string }{
		{"one that may be", "o", allOfTasks},
		{"a server without them", "t", `{}`},
		{"a server with those of others", "t", `{"requests":{"tools":{"call":null}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTasking()
			s.offers = c.offers
			s.call = func(params string) any {
				if strings.Contains(params, `"task"`) {
					return errors.New("a task")
				}
				return text("plain")
			}
			if answer, _, _, err := called(t, s, c.tool, Config{}, nil); err != nil || answer.Text != "plain" {
				t.Errorf("got %+v, %v", answer, err)
			}
		})
	}
}

func TestServerThatOffersNoTasksButWantsOneIsOneError(t *testing.T) {
	s := newTasking()
	s.offers = `{}`
	s.call = func(string) any { return errors.New("Tool t requires task augmentation (taskSupport: 'required')") }
	if _, _, _, err := called(t, s, "t", Config{}, nil); !errors.Is(err, errTask) {
		t.Errorf("got %v, want %v", err, errTask)
	}
}

func TestMCPTaskEndsInOneResult(t *testing.T) {
	status := func(text string) func(int) any { return func(int) any { return said(text) } }
	huge := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name   string
		change func(*tasking)
		want   string // of the error; "=" before it is the answer
		cancel bool   // the server is told that nobody wants it
	}{
		{"failed, with a reason", func(s *tasking) {
			s.get, s.result = status(`{"taskId":"a","status":"failed","statusMessage":"no paper"}`), errors.New("no result")
		}, "the MCP server s: the task failed: no paper", false},
		{"failed, without one", func(s *tasking) { s.get, s.result = status(`{"taskId":"a","status":"failed"}`), errors.New("no ink") }, "the task failed: no ink", false},
		{"failed, with a result", func(s *tasking) {
			s.get, s.result = status(`{"taskId":"a","status":"failed","statusMessage":"x"}`), said(`{"isError":true,"content":[{"type":"text","text":"no sheets"}]}`)
		}, "=no sheets", false},
		{"failed, with a result that is none", func(s *tasking) { s.get = status(`{"taskId":"a","status":"failed","statusMessage":"no paper"}`) }, "the task failed: no paper", false},
		{"cancelled there", func(s *tasking) { s.get = status(`{"taskId":"a","status":"cancelled","statusMessage":"by the owner"}`) }, "it has cancelled the task: by the owner", false},
		{"at once", func(s *tasking) {
			s.call = func(string) any { return said(`{"task":{"taskId":"a","status":"completed"}}`) }
		}, "=done", false},
		{"with fields that nobody knows", func(s *tasking) {
			s.call = func(string) any {
				return said(`{"x":[1],"task":{"y":{"z":1},"taskId":"a","status":"working"},"_meta":{}}`)
			}
		}, "=done", false},
		{"it wants input", func(s *tasking) {
			s.get = status(`{"taskId":"a","status":"input_required","statusMessage":"which one?"}`)
		}, "the task asks for input, which cannot be given here: which one?", true},
		{"no task but a result", func(s *tasking) { s.call = func(string) any { return text("at once") } }, "asked for a task, and answered something else", false},
		{"no task at all", func(s *tasking) { s.call = func(string) any { return said(`[1]`) } }, "answered something else", false},
		{"a null task", func(s *tasking) { s.call = func(string) any { return said(`{"task":null}`) } }, "answered something else", false},
		{"a task without a name", func(s *tasking) { s.call = func(string) any { return said(`{"task":{"status":"working"}}`) } }, "answered something else", false},
		{"a huge name", func(s *tasking) {
			s.call = func(string) any { return said(`{"task":{"taskId":"` + huge + `","status":"working"}}`) }
		}, "answered something else", false},
		{"a refusal", func(s *tasking) { s.call = func(string) any { return errors.New("no topic") } }, "the MCP server s says: no topic", false},
		{"a status that is not known", func(s *tasking) { s.get = status(`{"taskId":"a","status":"sleeping"}`) }, `"sleeping", which is not known`, true},
		{"no status", func(s *tasking) { s.get = status(`{}`) }, `"", which is not known`, true},
		{"a huge status", func(s *tasking) { s.get = status(`{"status":"` + huge + `"}`) }, `which is not known`, true},
		{"a huge reason", func(s *tasking) { s.get = status(`{"status":"cancelled","statusMessage":"` + huge + `"}`) }, "it has cancelled the task: xxx", false},
		{"the status of another", func(s *tasking) { s.get = status(`{"taskId":"b","status":"completed"}`) }, "asked how the task is, and answered something else", true},
		{"a status that is a number", func(s *tasking) { s.get = status(`{"taskId":"a","status":1}`) }, "answered something else", true},
		{"a task that was forgotten", func(s *tasking) { s.get = func(int) any { return errors.New("no such task") } }, "it does not say how the task is: no such task", true},
		{"no result", func(s *tasking) { s.result = errors.New("it is lost") }, "the task has ended, and its result is not given: it is lost", false},
		{"a result that is none", func(s *tasking) { s.result = said(`null`) }, "the task has ended, and its result is none", false},
		{"a task that never ends", func(s *tasking) { s.get = status(`{"taskId":"a","status":"working","pollInterval":1}`) }, "no answer after 5m0s", true},
		{"one that is asked after, and does not answer", func(s *tasking) { s.get = func(int) any { return nil } }, "no answer after 5m0s", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTasking()
			c.change(s)
			answer, _, _, err := called(t, s, "t", Config{}, nil)
			want, good := strings.CutPrefix(c.want, "=")
			if good && (err != nil || answer.Text != want) || !good && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*maxQuoted) {
				t.Errorf("got %.200q, %.300v; want %q", answer.Text, err, c.want)
			}
			if got := s.asked("tasks/cancel"); c.cancel != (len(got) == 1) || len(got) > 1 {
				t.Errorf("told to cancel: %q, want %v", got, c.cancel)
			}
			if got := len(s.asked("tasks/get")); got > 3001 {
				t.Errorf("asked %d times in 5 minutes", got)
			}
		})
	}
}

func TestPausesAreTheServersWithinBounds(t *testing.T) {
	for interval, want := range map[string]time.Duration{
		"1": minPollInterval, "250": 250 * time.Millisecond, "1e300": maxPollInterval, "-5": defaultPollInterval, "0": defaultPollInterval, "99999999": maxPollInterval, "null": defaultPollInterval,
	} {
		s := newTasking()
		one := func(state string) string {
			return fmt.Sprintf(`{"taskId":"a","status":%q,"pollInterval":%s}`, state, interval)
		}
		s.call = func(string) any { return said(`{"task":` + one("working") + `}`) }
		s.get = func(n int) any { return said(one([]string{"working", "completed"}[n])) }
		if _, _, took, err := called(t, s, "t", Config{}, nil); err != nil || took != 2*want {
			t.Errorf("%s: got %v after %v, want two pauses of %v", interval, err, took, want)
		}
	}
}

func TestNewsOfATaskShortenThePauseAndFloodNobody(t *testing.T) {
	s := newTasking()
	s.call = func(string) any { return said(`{"task":{"taskId":"a","status":"working","pollInterval":9000}}`) }
	_, _, took, err := called(t, s, "t", Config{}, func() {
		for range 200 {
			time.Sleep(5 * time.Millisecond)
			s.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"b","status":"working"}}` + "\n")
			s.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"a","status":"completed"}}` + "\n")
			s.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":[` + "]}\n")
		}
	})
	if err != nil || took < 3*minPollInterval || took > time.Second || len(s.asked("tasks/get")) != 3 {
		t.Errorf("got %v after %v with %d questions, want 3 at least %v apart", err, took, len(s.asked("tasks/get")), minPollInterval)
	}
}

func TestMCPTaskStatusIsProgress(t *testing.T) {
	s := newTasking()
	s.get = func(n int) any {
		texts := []string{"reading", "reading", "wri\u001bting " + strings.Repeat("y", 1<<20)}
		if n == len(texts) {
			return said(`{"taskId":"a","status":"completed","statusMessage":"over"}`)
		}
		text, _ := json.Marshal(map[string]any{"taskId": "a", "status": "working", "statusMessage": texts[n]})
		return json.RawMessage(text)
	}
	_, told, _, err := called(t, s, "t", Config{}, nil)
	if err != nil || len(told) != 2 || told[0] != (community.Progress{Message: "reading", Done: 1}) || told[1].Done != 2 || !strings.HasPrefix(told[1].Message, "wri") || len(told[1].Message) > maxWord || strings.Contains(told[1].Message, "\u001b") {
		t.Errorf("got %.300v, %v", told, err)
	}
}

func TestProgressThatTheServerTellsItselfIsNotToldTwice(t *testing.T) {
	s := newTasking()
	s.get = func(n int) any {
		state := "working"
		if n == 2 {
			state = "completed"
		}
		return said(fmt.Sprintf(`{"taskId":"a","status":%q,"statusMessage":"step %d"}`, state, n))
	}
	_, told, _, err := called(t, s, "t", Config{}, func() {
		time.Sleep(10 * time.Millisecond)
		s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1","progress":30,"total":100}}` + "\n")
	})
	if want := (community.Progress{Done: 30, Total: 100}); err != nil || len(told) != 1 || told[0] != want {
		t.Errorf("got %v, %v, want %v alone", told, err, want)
	}
}

func TestCallThatIsGivenUpCancelsItsTask(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // of the end, from the call
		first time.Duration // of the server's answer
		offer string
		want  int
	}{
		{"while it works", 3 * time.Second, 0, allOfTasks, 1},
		{"before the server has answered", time.Second, 2 * time.Second, allOfTasks, 1},
		{"where it cannot be cancelled", 3 * time.Second, 0, `{"requests":{"tools":{"call":{}}}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTasking()
			s.offers = c.offer
			s.call = func(string) any { time.Sleep(c.first); return said(`{"task":` + working + `}`) }
			s.get = func(int) any { return said(working) }
			bubbled(t, Config{}, s.open, func(t *testing.T, ctx context.Context, m *Manager) {
				one, err := m.Tool(ctx, "s", "t")
				if err != nil {
					t.Fatal(err)
				}
				short, cancel := context.WithTimeout(ctx, c.after)
				defer cancel()
				if _, err := one.Call(short, nil, ignore); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				time.Sleep(5 * time.Second)
				before := len(s.asked("tasks/get"))
				time.Sleep(time.Minute)
				if got := s.asked("tasks/cancel"); len(got) != c.want || len(s.asked("tasks/get")) != before {
					t.Errorf("cancelled %q, want %d; asked %d times more, want none", got, c.want, len(s.asked("tasks/get"))-before)
				}
				if told := slices.Contains(s.methods(), "notifications/cancelled"); told != (c.want == 0 || c.first > 0) {
					t.Errorf("notifications/cancelled: got %v", told)
				}
				s.call = func(string) any { return said(`{"task":{"taskId":"a","status":"completed"}}`) }
				if a, err := one.Call(ctx, nil, ignore); err != nil || a.Text != "done" {
					t.Errorf("the next call: got %+v, %v", a, err)
				}
			})
		})
	}
}

func TestTaskEndsWithItsConnection(t *testing.T) {
	s := newTasking()
	_, _, took, err := called(t, s, "t", Config{}, func() {
		time.Sleep(3 * time.Second)
		s.lose()
	})
	if !errors.Is(err, ErrNotReady) || took > 10*time.Second {
		t.Errorf("got %v after %v", err, took)
	}
}

func TestAnswersThatNobodyAskedForChangeNothing(t *testing.T) {
	s := newTasking()
	answer, _, _, err := called(t, s, "t", Config{}, func() {
		time.Sleep(time.Second)
		for _, id := range []string{`"task-1"`, `"task-2"`, `"task-99"`, `"task-"`, `1`, `2`, `3`, `4`, `5`, `1e300`} {
			s.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"forged"}]}}` + "\n")
		}
	})
	if err != nil || answer.Text != "done" {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestManyTasksRunAtATime(t *testing.T) {
	s := newTasking()
	var mu sync.Mutex
	made := 0
	s.call = func(string) any {
		mu.Lock()
		defer mu.Unlock()
		made++
		return said(fmt.Sprintf(`{"task":{"taskId":"t%d","status":"working"}}`, made))
	}
	s.get = func(int) any { return said(`{"status":"completed"}`) }
	bubbled(t, Config{}, s.open, func(t *testing.T, ctx context.Context, m *Manager) {
		one, err := m.Tool(ctx, "s", "t")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if a, err := one.Call(ctx, nil, ignore); err != nil || a.Text != "done" {
					t.Errorf("got %+v, %v", a, err)
				}
			})
		}
		wg.Wait()
	})
	seen := map[string]bool{}
	for _, params := range s.asked("tasks/result") {
		seen[params] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d tasks were asked for their result, want 50", len(seen))
	}
}

func TestStreamableHTTPHasTheSDKsOwnConnection(t *testing.T) {
	if _, ok := withTasks(&sdk.StreamableClientTransport{}).(*sdk.StreamableClientTransport); !ok {
		t.Error("it is wrapped: the SDK opens no stream then for what the server says unasked")
	}
}

func FuzzTaskAnswers(f *testing.F) {
	f.Add(`{"task":`+working+`}`, working, `{"content":[]}`)
	f.Add(`{"task":{"taskId":"a","status":"input_required"}}`, `{}`, `null`)
	f.Add(`{"task":{"taskId":"a","status":"working","pollInterval":1e400}}`, `{"status":"failed"}`, `{"isError":true}`)
	f.Add(`{"task":[]}`, `[]`, `"x"`)
	f.Fuzz(func(t *testing.T, created, state, result string) {
		for _, one := range []string{created, state, result} {
			if !json.Valid([]byte(one)) {
				return
			}
		}
		s := newTasking()
		s.call = func(string) any { return said(created) }
		s.get = func(int) any { return said(state) }
		s.result = said(result)
		cfg := Config{CallTimeout: 3 * time.Second}
		answer, _, took, err := called(t, s, "t", cfg, nil)
		if err == nil && answer.Text == "" || took > cfg.CallTimeout {
			t.Errorf("got %+v, %v after %v", answer, err, took)
		}
	})
}

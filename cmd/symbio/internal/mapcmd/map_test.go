package mapcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// fakeNode answers RunTask as a function says.
type fakeNode struct {
	symbiov1.ControlClient
	gone bool
	// onConfirm is called when the command says that a task may begin in its place.
	onConfirm func()
	run       func(r *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error
}

func (f *fakeNode) Status(context.Context, *symbiov1.StatusRequest, ...grpc.CallOption) (*symbiov1.StatusReply, error) {
	if f.gone {
		return nil, status.Error(codes.Unavailable, "the socket is closed")
	}
	return &symbiov1.StatusReply{}, nil
}

func (f *fakeNode) RunTask(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[symbiov1.RunTaskRequest, symbiov1.RunTaskEvent], error) {
	return &fakeStream{node: f}, nil
}

type fakeStream struct {
	grpc.ClientStream
	node   *fakeNode
	asked  bool
	events []*symbiov1.RunTaskEvent
	err    error
}

// Send takes the task, and then what confirms a place.
func (s *fakeStream) Send(r *symbiov1.RunTaskRequest) error {
	if s.asked {
		if s.node.onConfirm != nil {
			s.node.onConfirm()
		}
		return nil
	}
	s.asked = true
	s.err = s.node.run(r, func(e *symbiov1.RunTaskEvent) { s.events = append(s.events, e) })
	return nil
}

func (s *fakeStream) Recv() (*symbiov1.RunTaskEvent, error) {
	if len(s.events) == 0 && s.err == nil {
		return nil, io.EOF
	}
	if len(s.events) == 0 {
		return nil, s.err
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, nil
}

func placed() *symbiov1.RunTaskEvent {
	return &symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Placed{Placed: &symbiov1.TaskPlace{Node: "b"}}}
}

func did(text, problem string) *symbiov1.RunTaskEvent {
	return &symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Result{Result: &symbiov1.TaskResult{Text: text, Error: problem}}}
}

// mapLines runs symbio map over lines with a fake node, and returns the results and the error.
func mapLines(t *testing.T, ctx context.Context, o options, lines string, run func(r *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error) (string, error) {
	t.Helper()
	var out strings.Builder
	env := &command.Env{In: strings.NewReader(lines), Out: &out, Err: io.Discard}
	o.agent, o.lines, o.nodes, o.parallel = "worker", "-", "all", 4
	err := o.run(ctx, env, &fakeNode{run: run})
	if o.out == "" {
		return out.String(), err
	}
	text, _ := os.ReadFile(o.out)
	return string(text), err
}

func TestItemsThatFindAllPlacesTakenWaitAndAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		out, err := mapLines(t, t.Context(), options{retries: 1}, "a\nb\n", func(r *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error {
			mu.Lock()
			defer mu.Unlock()
			asked[r.GetTask()]++
			switch asked[r.GetTask()] {
			case 1, 2:
				return status.Error(codes.ResourceExhausted, "all places are taken")
			case 3:
				send(placed())
				send(did("", "not today"))
			default:
				send(placed())
				send(did("did "+r.GetTask(), ""))
			}
			return nil
		})
		want := `{"index":0,"item":"a","result":"did a","node":"b","attempts":2}` + "\n" + `{"index":1,"item":"b","result":"did b","node":"b","attempts":2}` + "\n"
		if err != nil || out != want {
			t.Errorf("got %s%v, want %s", out, err, want)
		}
	})
}

func TestRunEndsWhenNoNodeCanDoTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := mapLines(t, t.Context(), options{}, "a\nb\n", func(*symbiov1.RunTaskRequest, func(*symbiov1.RunTaskEvent)) error {
			return status.Error(codes.Unavailable, "it is away")
		})
		if took := time.Since(begun); status.Code(err) != codes.Unavailable || took < maxAbsence || took > 2*maxAbsence {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// What waits in the node's queue has not begun when the command is killed; what had a place may have.
func TestRunThatGoesOnSaysWhatMayHaveBegun(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "out")}
	ctx, kill := context.WithCancel(t.Context())
	_, err := mapLines(t, ctx, o, "a\nb\nc\n", func(r *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error {
		switch r.GetTask() {
		case "a":
			send(placed())
			send(did("did a", ""))
			return nil
		case "b":
			send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Waiting{Waiting: 3}})
		case "c":
			send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Waiting{Waiting: 1}})
			send(placed())
		}
		if r.GetTask() == "c" {
			kill()
		}
		<-ctx.Done()
		return status.Error(codes.Canceled, "interrupted")
	})
	if err == nil {
		t.Fatal("the interrupted run has no error")
	}
	var mu sync.Mutex
	var again []string
	out, err := mapLines(t, t.Context(), o, "a\nb\nc\n", func(r *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error {
		mu.Lock()
		defer mu.Unlock()
		again = append(again, fmt.Sprint(r.GetTask(), r.GetAgain()))
		send(did("did "+r.GetTask(), ""))
		return nil
	})
	slices.Sort(again)
	if err != nil || !slices.Equal(again, []string{"bfalse", "ctrue"}) || strings.Count(out, "\n") != 3 {
		t.Errorf("%v: asked for %v:\n%s", err, again, out)
	}
}

// A task begins when the command has said so, and before it says so the journal has that it may have begun.
func TestItemIsMarkedBeforeItMayBegin(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "out"), agent: "worker", lines: "-", nodes: "all", parallel: 1}
	var kept []byte
	node := &fakeNode{run: func(_ *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error {
		send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Waiting{Waiting: 1}})
		send(placed())
		send(did("did it", ""))
		return nil
	}}
	confirmed := 0
	node.onConfirm = func() {
		confirmed++
		kept, _ = os.ReadFile(o.out + ".part")
	}
	if err := o.run(t.Context(), &command.Env{In: strings.NewReader("a\n"), Out: io.Discard, Err: io.Discard}, node); err != nil || confirmed != 1 {
		t.Fatalf("%d confirmed, %v", confirmed, err)
	}
	lines := strings.Split(strings.TrimSpace(string(kept)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"state":"begun"`) || !strings.Contains(last, `"attempts":1`) {
		t.Errorf("when the task may begin the journal has\n%s", kept)
	}
}

// A task that the node has said nothing about has not begun.
func TestItemWithoutPlaceHasNotBegun(t *testing.T) {
	for _, o := range []options{{agent: "worker"}, {capability: "count"}} {
		o.out, o.lines, o.nodes, o.parallel = filepath.Join(t.TempDir(), "out"), "-", "all", 1
		var kept []byte
		node := &fakeNode{run: func(*symbiov1.RunTaskRequest, func(*symbiov1.RunTaskEvent)) error {
			kept, _ = os.ReadFile(o.out + ".part")
			return status.Error(codes.PermissionDenied, "no")
		}}
		_ = o.run(t.Context(), &command.Env{In: strings.NewReader("a\n"), Out: io.Discard, Err: io.Discard}, node) // the item fails
		if !strings.Contains(string(kept), `"state":"waiting"`) {
			t.Errorf("with %+v the journal has %q, want the state waiting", o, kept)
		}
	}
}

// A second run with the same output is refused while the first one works, and after it.
func TestTwoRunsDoNotShareTheirOutput(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "out")}
	second := func() error {
		_, err := mapLines(t, t.Context(), o, "a\n", func(*symbiov1.RunTaskRequest, func(*symbiov1.RunTaskEvent)) error {
			t.Error("the second run works")
			return nil
		})
		return err
	}
	out, err := mapLines(t, t.Context(), o, "a\n", func(_ *symbiov1.RunTaskRequest, send func(*symbiov1.RunTaskEvent)) error {
		if err := second(); err == nil || !strings.Contains(err.Error(), "another symbio map keeps its results in "+o.out+".part") {
			t.Errorf("meanwhile: %v", err)
		}
		send(did("did a", ""))
		return nil
	})
	if err != nil || !strings.Contains(out, "did a") {
		t.Errorf("the first run: %s, %v", out, err)
	}
	if err := second(); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("afterwards: %v", err)
	}
}

func TestJournalDropsLineThatWasCutOff(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  0,
		`{"index":0,"item":1,"hash":"x"}`:   0,
		`{"index":0,"item":1,"hash":"x"}\n`: 1,
		`{"index":3,"item":1,"hash":"x"}\n{"index":0,"it`:    4,
		`{"index":-1,"item":1,"hash":"x"}\n`:                 -1,
		`{"index":1000000000,"item":1,"hash":"x"}\n`:         -1,
		`{"index":0,"item":1}\n`:                             -1,
		`nonsense\n`:                                         -1,
		`{"index":0,"item":1,"hash":"x","attempts":"x"}\n`:   -1,
		`{"index":0,"item":1,"hash":"x"}\n\nmore after it\n`: -1,
	} {
		f := journalFile(t, strings.ReplaceAll(text, `\n`, "\n"))
		j, err := openJournal(f)
		if got := -1; (err == nil) != (want >= 0) {
			t.Errorf("%s: %v", text, err)
		} else if err == nil {
			if got = len(j.at); got != want {
				t.Errorf("%s: %d items, want %d", text, got, want)
			}
		}
	}
}

func journalFile(t testing.TB, text string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "part"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

// A journal that was read can be written to and read again, whatever was in the file.
func FuzzJournal(f *testing.F) {
	f.Add(`{"index":0,"item":1,"hash":"x"}` + "\n" + `{"index":0,"item":1,"hash":"x","state":"begun"}` + "\nrest")
	f.Fuzz(func(t *testing.T, text string) {
		file := journalFile(t, text)
		j, err := openJournal(file)
		if err != nil {
			return
		}
		if err := j.put(outcome{Index: len(j.at), Item: json.RawMessage(`"new"`), Hash: "y"}); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		again, err := openJournal(file)
		if err != nil || !slices.Equal(j.at, again.at) {
			t.Errorf("%v: %v and %v", err, j.at, again.at)
		}
	})
}

func TestExpand(t *testing.T) {
	lines, files := &input{}, &input{files: true}
	line := func(text string) *item {
		in := &input{}
		in.from(strings.NewReader(text))
		return in.next()
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("a \"b\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := &item{line: []byte(file), json: []byte(`"x/a.txt"`)}
	for _, c := range []struct {
		in       *input
		template string
		json     bool
		item     *item
		want     string
	}{
		{lines, "{item}", false, line("plain text"), "plain text"},
		{lines, "{item}", true, line("plain text"), `"plain text"`},
		{lines, "{item}", true, line(`{"n": 1}`), `{"n": 1}`},
		{lines, "Say {title}, {n} times {to you}", false, line(`{"title":"a \"b\"","n":12345678901234567890}`), `Say a "b", 12345678901234567890 times {to you}`},
		{lines, `{"t": "It is {title}", "n": {n}}`, true, line(`{"title":"a \"b\"","n":1.50}`), `{"t": "It is a \"b\"", "n": 1.50}`},
		{files, "{path}: {text}", false, path, "x/a.txt: a \"b\"\n"},
		{files, `{"path": "{path}", "text": "{text}"}`, true, path, `{"path": "x/a.txt", "text": "a \"b\"\n"}`},
	} {
		if got, err := c.in.expand(c.template, c.json, c.item); err != nil || got != c.want {
			t.Errorf("%s of %s: got %s, %v, want %s", c.template, c.item.line, got, err, c.want)
		}
	}
	for _, c := range []struct {
		in       *input
		template string
		want     string
	}{{lines, "{path}", `no field "path"`}, {files, "{item}", `no field "item"`}, {lines, `{"n": {item}`, "does not become JSON"}} {
		if _, err := c.in.expand(c.template, true, line("1")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.template, err)
		}
	}
}

func TestBar(t *testing.T) {
	for want, c := range map[string]counts{
		"7 done, 1.5/s": {Done: 7, Rate: 1.5},
		"[==========          ] 10/20, 2.0/s, 5s left, 1 failed": {Total: 20, Done: 10, Failed: 1, Rate: 2, Left: 5},
		"[=                   ] 1/20, 0.0/s, 1 denied":           {Total: 20, Done: 1, Denied: 1},
		"[                    ] 0/20, 0.0/s":                     {Total: 20},
	} {
		if got := c.line(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFailuresAreNamedBesideManyDenials(t *testing.T) {
	p := &progress{counts: counts{Nodes: map[string]int{}}}
	for i := range 2 * maxFailures {
		p.count(outcome{Index: i, Denials: []chat.Denial{{Tool: "Write"}}}, false)
	}
	p.count(outcome{Index: 99, Error: "broken"}, false)
	if len(p.denied) != maxFailures || len(p.failures) != 1 || !strings.Contains(p.failures[0], "failed: item 99") {
		t.Errorf("named are %q and %q", p.failures, p.denied)
	}
}

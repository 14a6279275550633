package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/notify"
)

// rig is a notifier with one target, in a bubble.
type rig struct {
	t      *testing.T
	dir    string
	events *event.Stream
	stop   func()
	begun  time.Time

	mu   sync.Mutex
	sent []string // when, title and text of each attempt
	send func(ctx context.Context) error
}

func newRig(t *testing.T, link string) *rig {
	r := &rig{t: t, dir: t.TempDir(), events: event.NewStream("kitchen"), begun: time.Now(), send: func(context.Context) error { return nil }}
	targets, _ := notify.Books(r.dir)
	if err := targets.Put(notify.Target{Name: "phone", Kind: notify.Ntfy, URL: "https://ntfy.example/topic"}); err != nil {
		t.Fatal(err)
	}
	n := notify.New(notify.Config{
		Node: "kitchen", State: r.dir, Events: r.events, Link: func() string { return link }, Logger: slog.New(slog.DiscardHandler),
		Agents: func() []agent.Activity {
			return []agent.Activity{{Member: community.Member{ID: "1"}, Task: "fix the tests", Turn: 3, PlanDone: 1, PlanSteps: 4}}
		},
		Send: func(ctx context.Context, _ notify.Target, m notify.Message) error {
			r.mu.Lock()
			r.sent = append(r.sent, strings.TrimSpace(fmt.Sprintf("%v %s|%s|%s", time.Since(r.begun), m.Title, m.Text, m.Link)))
			send := r.send
			r.mu.Unlock()
			return send(ctx)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	synctest.Wait()
	return r
}

func (r *rig) publish(e event.Event) {
	e.Agent, e.Name = "1", "claude"
	r.events.Publish(e)
}

func (r *rig) ask(id string) {
	r.publish(event.Event{Type: event.TypeApproval, Why: "no rule allows it", Part: event.Approval{
		ID: id, Tool: "Bash", Args: json.RawMessage(`{"command":"deploy --token=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"}`)}})
}

// attempts returns what was sent so far.
func (r *rig) attempts() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func (r *rig) want(sent ...string) {
	r.t.Helper()
	if got, want := strings.Join(r.attempts(), "\n"), strings.Join(sent, "\n"); got != want {
		r.t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
}

const question = `10s claude on kitchen asks|Bash {"command":"deploy --token=[redacted]"}: no rule allows it
It works on "fix the tests", and has had 3 answers of the model and done 1 of the 4 steps of its plan.`

func TestQuestionThatWaitsIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "https://192.0.2.1:7950/approvals")
		r.ask("1")
		time.Sleep(10*time.Second - 1)
		r.want()
		time.Sleep(time.Hour)
		r.want(question + "|https://192.0.2.1:7950/approvals")
		r.stop()
	})
}

func TestQuestionSaysHowToAnswerWithoutDashboard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.ask("1")
		time.Sleep(time.Hour)
		r.want(question + "\nAnswer with symbio approvals, or serve the dashboard: symbio up --dashboard|")
		r.stop()
	})
}

func TestAnsweredQuestionIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.ask("1")
		time.Sleep(9 * time.Second)
		r.publish(event.Event{Type: event.TypeAnswered, Part: event.Answer{ID: "1"}})
		time.Sleep(time.Hour)
		r.want()
		r.stop()
	})
}

func TestEndOfLongTaskIsSent(t *testing.T) {
	for name, c := range map[string]struct {
		took   time.Duration
		parent string
		end    event.Event
		want   []string
	}{
		"done":      {2 * time.Minute, "", event.Event{Type: event.TypeDone, Text: "All  tests\npass."}, []string{"2m0s claude on kitchen is done|After 2m0s: All tests pass.|"}},
		"failed":    {time.Minute, "", event.Event{Type: event.TypeFailed, Why: "the budget is used up"}, []string{"1m0s claude on kitchen failed|After 1m0s: the budget is used up|"}},
		"short":     {59 * time.Second, "", event.Event{Type: event.TypeDone, Text: "yes"}, nil},
		"sub-agent": {time.Hour, "2", event.Event{Type: event.TypeDone, Text: "yes"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "")
				r.publish(event.Event{Type: event.TypeTask, Text: "fix the tests", Parent: c.parent})
				time.Sleep(c.took)
				c.end.Parent = c.parent
				r.publish(c.end)
				r.publish(c.end) // of a task that has not begun
				r.want(c.want...)
				r.stop()
			})
		})
	}
}

// errTest is of a target that takes no messages.
var errTest = errors.New("HTTP 500")

func (r *rig) failure() string {
	_, failures := notify.Books(r.dir)
	f, _ := failures.Find("phone")
	return f.Why
}

func TestMessageIsRepeatedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		warnings := r.events.Subscribe(time.Time{})
		defer warnings.Close()
		tries := 0
		r.send = func(context.Context) error {
			if tries++; tries <= 3 {
				return errTest
			}
			return nil
		}
		r.ask("1")
		time.Sleep(30 * time.Second)
		if why := r.failure(); why != "HTTP 500" {
			t.Errorf("after failures: %q", why)
		}
		time.Sleep(time.Hour)
		var at []string
		for _, s := range r.attempts() {
			when, _, _ := strings.Cut(s, " ")
			at = append(at, when)
		}
		if got := strings.Join(at, " "); got != "10s 15s 25s 45s" {
			t.Errorf("attempts at %s", got)
		}
		if why := r.failure(); why != "" {
			t.Errorf("after a success: %q", why)
		}
		n := 0
		for e, ok := warnings.Take(); ok; e, ok = warnings.Take() {
			if e.Type == event.TypeWarning {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d warnings", n)
		}
		r.stop()
	})
}

func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.send = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for i := range 100 {
			r.ask(fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(r.attempts()); n != 64 || r.failure() != "64 messages wait already" {
			t.Errorf("%d messages, %q", n, r.failure())
		}
		r.stop()
	})
}

// A run of one task ends its node with the task. The message about it is still sent.
func TestEndIsSentWhileTheNodeStops(t *testing.T) {
	for name, c := range map[string]struct {
		takes, want time.Duration
	}{"quick": {time.Second, time.Second}, "slow": {time.Hour, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "")
				r.send = func(ctx context.Context) error {
					select {
					case <-time.After(c.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				r.ask("1") // it is given up
				r.publish(event.Event{Type: event.TypeTask})
				time.Sleep(time.Minute)
				r.mu.Lock()
				r.sent = nil
				r.mu.Unlock()
				r.publish(event.Event{Type: event.TypeDone, Text: "yes"})
				stopped := time.Now()
				r.stop()
				r.want("1m0s claude on kitchen is done|After 1m0s: yes|")
				if took := time.Since(stopped); took != c.want {
					t.Errorf("the stop took %v, want %v", took, c.want)
				}
			})
		})
	}
}

func TestTargetsGetTheirForm(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		got = fmt.Sprintf("%s %s %s:%s %s", r.Method, r.URL.Path, user, password, body)
		switch r.URL.Path {
		case "/secret/no":
			http.Error(w, "no", http.StatusForbidden)
		case "/secret/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	}))
	defer s.Close()
	m := notify.Message{Title: "claude on kitchen asks", Text: "Bash: é\nmore", Link: "http://127.0.0.1:1/approvals"}
	withUser := strings.Replace(s.URL, "http://", "http://:tk_1@", 1)
	for name, c := range map[string]struct {
		target   notify.Target
		want     string
		failed   string
		unwanted string
	}{
		"ntfy": {notify.Target{Kind: notify.Ntfy, URL: withUser + "/base/topic/"},
			`POST /base/ :tk_1 {"topic":"topic","title":"claude on kitchen asks","message":"Bash: é\nmore","click":"http://127.0.0.1:1/approvals"}`, "", ""},
		"webhook": {notify.Target{Kind: notify.Webhook, URL: s.URL + "/secret/hook"},
			`POST /secret/hook : {"title":"claude on kitchen asks","link":"http://127.0.0.1:1/approvals","text":"claude on kitchen asks\nBash: é\nmore\nhttp://127.0.0.1:1/approvals","body":"Bash: é\nmore"}`, "", ""},
		"refused":  {notify.Target{Kind: notify.Webhook, URL: s.URL + "/secret/no"}, "", "refused: " + s.URL + " answers 403 Forbidden", "secret"},
		"redirect": {notify.Target{Kind: notify.Webhook, URL: s.URL + "/secret/moved"}, "", "refused: " + s.URL + " answers 307 Temporary Redirect", "secret"},
		"no server": {notify.Target{Kind: notify.Webhook, URL: "http://127.0.0.1:1/secret"}, "",
			"http://127.0.0.1:1 cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused", "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			c.target.Name = "x"
			if err := c.target.Check(); err != nil {
				t.Fatal(err)
			}
			err := c.target.Send(t.Context(), m)
			if c.failed != "" {
				if err == nil || err.Error() != c.failed || strings.Contains(err.Error(), c.unwanted) {
					t.Errorf("%v, want %s", err, c.failed)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestCommandGetsTitleAndText(t *testing.T) {
	file := t.TempDir() + "/out"
	target := notify.Target{Name: "x", Kind: notify.Command, Command: []string{"sh", "-c", `printf '%s|' "$@" > ` + file, "sh"}}
	if err := target.Send(t.Context(), notify.Message{Title: "$(id)", Text: "`id`; it", Link: "http://x"}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "$(id)|`id`; it\nhttp://x|" {
		t.Errorf("%q, %v", got, err)
	}
	target.Command = []string{"sh", "-c", "echo there is no screen; exit 3"}
	if err := target.Send(t.Context(), notify.Message{}); err == nil || err.Error() != "refused: sh: exit status 3 there is no screen" {
		t.Error(err)
	}
}

func TestTargetsThatCannotBeUsed(t *testing.T) {
	for _, target := range []notify.Target{
		{Name: "x", Kind: "mail"}, {Name: "x", Kind: notify.Ntfy, URL: "https://ntfy.sh"}, {Name: "x", Kind: notify.Webhook, URL: "ntfy.sh/x"},
		{Name: "x", Kind: notify.Webhook, URL: "file:///etc/passwd"}, {Name: "x", Kind: notify.Command}, {Name: "../x", Kind: notify.Command, Command: []string{"x"}},
	} {
		if err := target.Check(); err == nil {
			t.Errorf("%+v is accepted", target)
		}
	}
}

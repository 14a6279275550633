//go:build unix

package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/internal/agent/node/control"
	"symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

// slowScript answers at once, or never to "wait".
var slowScript = `
name: slow
turns:
- match: {user: '(?m)^wait$'} # also with lines that reached the agent before its first request
  text: never heard
  stall: 1h
- match: {user: 'much$'}
  text: '` + strings.Repeat("<a>", 1_000_000) + `'
- text: 'heard {{user}}'
`

// startNode starts a node, on loopback and by itself, and returns its control socket.
func startNode(t *testing.T) symbiov1.ControlClient {
	t.Helper()
	dir, err := os.MkdirTemp("", "sy") // short: a socket lives below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "slow.yaml"), []byte(slowScript), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS = "one", "127.0.0.1:0", false
	c.Model, c.Directories, c.Skills.Enabled = config.Models("scripted:"+filepath.Join(dir, "slow.yaml")), nil, false
	kept := state.Dir(filepath.Join(dir, "state"))
	n, err := node.New(node.Config{Settings: c, State: kept, Dir: dir, Home: dir, Host: "one", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	select {
	case <-n.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	conn, err := kept.Node("one").Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return symbiov1.NewControlClient(conn)
}

// dialogue is one conversation of a test.
type dialogue struct {
	t      *testing.T
	stream symbiov1.Control_ConverseClient
}

func converse(t *testing.T, c symbiov1.ControlClient, open *symbiov1.RunRequest) dialogue {
	t.Helper()
	stream, err := c.Converse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := dialogue{t, stream}
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}})
	return d
}

func (d dialogue) say(r *symbiov1.ConverseRequest) {
	d.t.Helper()
	if err := d.stream.Send(r); err != nil {
		d.t.Fatal(err)
	}
}

func (d dialogue) next(text string) {
	d.t.Helper()
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: text}}})
}

func (d dialogue) steer(id, text string) {
	d.t.Helper()
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Id: id, Text: text}}})
}

func (d dialogue) interrupt() {
	d.t.Helper()
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Interrupt{Interrupt: &symbiov1.Interrupt{}}})
}

// heard is what a test looks at in events.
type heard struct {
	ID, Text, Status, Error, Outcome string
	agent                            string
	Over, Responding                 bool
	Pending                          int `json:"pending_steering"`
	Turn                             int
}

// hears waits for the next event of that type.
func (d dialogue) hears(kind string) (h heard) {
	d.t.Helper()
	for {
		e, err := control.Receive(d.stream.Recv)
		if err != nil {
			d.t.Fatalf("while waiting for %s: %v", kind, err)
		}
		if e.Type == kind {
			line, err := json.Marshal(e)
			if err == nil {
				err = json.Unmarshal(line, &h)
			}
			if err != nil {
				d.t.Fatal(err)
			}
			h.agent = e.Agent
			return h
		}
	}
}

// until asks how the agent stands, until that fits.
func (d dialogue) until(fits func(heard) bool) {
	d.t.Helper()
	for stands := (heard{}); !fits(stands); stands = d.hears("transcript") {
		d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Transcript{Transcript: &symbiov1.AskTranscript{}}})
	}
}

// ends waits for the end, and returns how many results came before.
func (d dialogue) ends() (results int, err error) {
	d.t.Helper()
	for {
		e, err := control.Receive(d.stream.Recv)
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, err
		}
		if e.Type == "result" {
			results++
		}
	}
}

func TestConversationIsHeldOverTheControlSocket(t *testing.T) {
	c := startNode(t)
	t.Run("messages are answered in turn, and all of them before the end", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{Task: "one"})
		for _, text := range []string{"two", "three", "four"} {
			d.next(text)
		}
		if err := d.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "two", "three"} {
			if r := d.hears("result"); r.Text != "heard "+text || r.Status != "done" {
				t.Errorf("the answer to %s is %+v", text, r)
			}
		}
		if n, err := d.ends(); n != 1 || err != nil {
			t.Errorf("behind the third answer there are %d and %v", n, err)
		}
		members, err := c.Members(t.Context(), &symbiov1.MembersRequest{Accepts: "task"})
		if err != nil || len(members.GetMembers()) > 0 { // no other conversation is before this
			t.Errorf("afterwards there are the agents %v, %v", members.GetMembers(), err)
		}
	})
	t.Run("lines reach the agent in their order", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{})
		d.next("wait")
		d.until(func(h heard) bool { return h.Responding })
		for i := range 30 {
			d.steer("", strconv.Itoa(i))
		}
		d.interrupt()
		for i := range 30 {
			if h := d.hears("steered"); h.Text != strconv.Itoa(i) {
				t.Fatalf("line %d is %+v", i, h)
			}
		}
	})
	t.Run("a person who connects while an agent works in the session waits for the end of the task", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{Task: "one"})
		id := d.hears("session").ID
		d.hears("result") // the session is durable now
		d.next("wait")
		d.until(func(h heard) bool { return h.Responding && h.Turn > 0 })
		if _, err := converse(t, c, &symbiov1.RunRequest{Session: id}).ends(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a script gets %v", err)
		}
		other := converse(t, c, &symbiov1.RunRequest{Session: id, Interactive: true})
		if h := other.hears("notice"); !strings.Contains(h.Text, "waiting for its end") {
			t.Errorf("the person reads %q", h.Text)
		}
		d.interrupt()
		if h := other.hears("session"); h.ID != id {
			t.Errorf("it goes on with session %q, want %q", h.ID, id)
		}
		other.next("two")
		if r := other.hears("result"); r.Text != "heard two" {
			t.Errorf("the answer is %+v", r)
		}
		d.next("three")
		d.hears("result") // of the interrupted message
		if r := d.hears("result"); r.Status != "failed" || !strings.Contains(r.Error, "another agent goes on with it") {
			t.Errorf("the first one goes on with %+v", r)
		}
	})
	t.Run("an answer is larger than a message may be", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{Task: "much"})
		if r := d.hears("result"); r.Status != "done" || len(r.Text) != 3_000_000 {
			t.Errorf("the result is %s with %d bytes", r.Status, len(r.Text))
		}
	})
	t.Run("a turn is interrupted, begun or not, and the next one is taken", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{})
		d.interrupt() // of nothing
		d.next("wait")
		d.interrupt()
		d.next("wait")
		if r := d.hears("result"); r.Status != "interrupted" {
			t.Errorf("the first result is %+v", r)
		}
		d.hears("task")
		d.interrupt()
		d.next("three")
		if r := d.hears("result"); r.Status != "interrupted" {
			t.Errorf("the second result is %+v", r)
		}
		if r := d.hears("result"); r.Status != "done" || !strings.HasSuffix(r.Text, "three") {
			t.Errorf("the third result is %+v", r)
		}
	})
	t.Run("what was said meanwhile is given back with its id when the turn is interrupted", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{})
		d.steer("0", "to nobody")
		if r := d.hears("receipt"); r.ID != "0" || r.Outcome != "returned" || r.Text != "to nobody" {
			t.Errorf("before anything was said the receipt is %+v", r)
		}
		d.next("wait")
		d.hears("task")
		d.steer("7", "  ")
		if r := d.hears("receipt"); r.ID != "7" || r.Outcome != "returned" {
			t.Errorf("of nothing the receipt is %+v", r)
		}
		d.until(func(h heard) bool { return h.Responding })
		d.steer("8", "hurry")
		d.until(func(h heard) bool { return h.Pending == 1 })
		d.interrupt()
		if err := d.stream.CloseSend(); err != nil { // and it comes all the same
			t.Fatal(err)
		}
		if r := d.hears("receipt"); r.ID != "8" || r.Outcome != "returned" || r.Text != "hurry" {
			t.Errorf("the receipt is %+v", r)
		}
	})
	t.Run("who says too much at once is refused", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{Task: "wait"})
		d.hears("task")
		for range 100 {
			_ = d.stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: "more"}}}) // it ends at some time
		}
		if _, err := d.ends(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("it ended with %v, want ResourceExhausted", err)
		}
	})
	t.Run("it says that nothing follows when the agent is gone", func(t *testing.T) {
		d := converse(t, c, &symbiov1.RunRequest{Task: "one"})
		r := d.hears("result")
		if _, err := c.Terminate(t.Context(), &symbiov1.TerminateRequest{Member: r.agent}); err != nil {
			t.Fatal(err)
		}
		d.next("two")
		if r := d.hears("result"); !r.Over || r.Status != "failed" {
			t.Errorf("the result is %+v", r)
		}
	})
	t.Run("it begins with what it is to be", func(t *testing.T) {
		stream, err := c.Converse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d := dialogue{t, stream}
		d.next("hello")
		if _, err := d.ends(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("it ended with %v, want InvalidArgument", err)
		}
	})
}

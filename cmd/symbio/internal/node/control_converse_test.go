//go:build unix

package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/cmd/symbio/internal/config"
	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// slowScript answers at once, or never to "wait".
const slowScript = `
name: slow
turns:
- match: {user: 'wait$'}
  text: never heard
  stall: 1h
- text: 'heard {{ .User }}'
`

// control starts a node, on loopback and by itself, and returns its control socket.
func control(t *testing.T) symbiov1.ControlClient {
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
	state := node.State{Dir: filepath.Join(dir, "state")}
	ready := make(chan node.Ready, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, node.Options{
			Config: c, State: state, Dir: dir, Home: dir, Host: "one", Getenv: func(string) string { return "" },
			Ready: func(r node.Ready) error { ready <- r; return nil },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	conn, err := state.Dial("one")
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	stream, err := c.Converse(ctx)
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
}

// hears waits for the next event of that type.
func (d dialogue) hears(kind string) (h heard) {
	d.t.Helper()
	for {
		e, err := d.stream.Recv()
		if err != nil {
			d.t.Fatalf("while waiting for %s: %v", kind, err)
		}
		if e.GetType() == kind {
			if err := json.Unmarshal(e.GetData(), &h); err != nil {
				d.t.Fatal(err)
			}
			h.agent = e.GetAgent()
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
		e, err := d.stream.Recv()
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, err
		}
		if e.GetType() == "result" {
			results++
		}
	}
}

func TestAConversationIsHeldOverTheControlSocket(t *testing.T) {
	c := control(t)
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
	t.Run("who runs a task has one of one message", func(t *testing.T) {
		for task, want := range map[string]codes.Code{"one": codes.OK, "": codes.InvalidArgument} {
			stream, err := c.Run(t.Context(), &symbiov1.RunRequest{Task: task})
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for {
				e, recvErr := stream.Recv()
				if err = recvErr; err != nil {
					break
				}
				last = e.GetType()
			}
			if want == codes.OK && (!errors.Is(err, io.EOF) || last != "result") || want != codes.OK && status.Code(err) != want {
				t.Errorf("%q ended with %v behind %q", task, err, last)
			}
		}
	})
}

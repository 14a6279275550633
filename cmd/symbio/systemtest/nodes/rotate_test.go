//go:build system

package nodes_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/symbiotest"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/community/waittest"
	symbiov1 "symbio/proto/symbio/v1"
)

// machine is a state directory with one node.
type machine struct {
	t           *testing.T
	state, name string
	client      symbiov1.ControlClient
}

func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{t: t, state: symbiotest.ShortDir(t), name: name}
	if err := os.WriteFile(filepath.Join(m.state, "node.yaml"), []byte("authorize:\n  - {from: \"*\", invoke: [\"*\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("symbio", args...)
	cmd.Env = append(os.Environ(), "HOME="+m.state, "XDG_STATE_HOME="+m.state, "XDG_CONFIG_HOME="+m.state)
	return cmd
}

// symbio runs a command, which must succeed, and returns its standard output.
func (m *machine) symbio(args ...string) string {
	m.t.Helper()
	cmd := m.command(append([]string{"--node", m.name}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("%s: symbio %s: %v\n%s%s", m.name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// up starts the node.
func (m *machine) up() {
	m.t.Helper()
	p := symbiotest.Started(m.t, m.command("up", "--json", "--name", m.name, "--config", filepath.Join(m.state, "node.yaml")))
	p.Expect(m.t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	var reading sync.WaitGroup
	m.t.Cleanup(func() { p.Cmd.Process.Kill(); reading.Wait() })
	reading.Go(func() {
		for range p.Lines { // its output is not looked at
		}
	})
	conn, err := statedir.Dir(filepath.Join(m.state, "symbio")).Node(m.name).Dial()
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	m.client = symbiov1.NewControlClient(conn)
}

// joins makes the machine's node a member by a token of holder.
func (m *machine) joins(holder *machine) {
	m.t.Helper()
	var token struct{ Token, Address string }
	if err := json.Unmarshal([]byte(holder.symbio("cluster", "token", "--json")), &token); err != nil {
		m.t.Fatal(err)
	}
	m.symbio("cluster", "join", "--listen", "127.0.0.1:0", token.Token, token.Address)
}

// sees waits until the machine's node can call those of the others.
func (m *machine) sees(others ...*machine) {
	m.t.Helper()
	for _, o := range others {
		waittest.Until(m.t, m.name+" sees "+o.name, func() (any, bool) {
			reply, err := m.client.Members(m.t.Context(), &symbiov1.MembersRequest{})
			for _, one := range reply.GetMembers() {
				if one.GetName() == o.name && one.GetAvailable() {
					return nil, true
				}
			}
			return err, false
		})
	}
}

// rotation is what `cluster status` says of it.
func (m *machine) rotation() (stage string, waiting []string) {
	m.t.Helper()
	var s struct {
		Rotation struct {
			Stage   string
			Waiting []string
		}
	}
	if err := json.Unmarshal([]byte(m.symbio("cluster", "status", "--json")), &s); err != nil {
		m.t.Fatal(err)
	}
	return s.Rotation.Stage, s.Rotation.Waiting
}

// Three real nodes, of which two hold the authority, call each other all the time while the authority is replaced. A fourth one
// is off, and comes back later.
func TestRotateUnderLoad(t *testing.T) {
	t.Parallel()
	ann, bob, carl, off := newMachine(t, "ann"), newMachine(t, "bob"), newMachine(t, "carl"), newMachine(t, "off")
	ann.symbio("cluster", "init", "--name", "lab", "--listen", "127.0.0.1:0")
	ann.up()
	on := []*machine{ann, bob, carl}
	for _, m := range []*machine{bob, carl, off} {
		m.joins(ann)
	}
	bob.up()
	carl.up()
	for _, m := range on {
		for _, o := range on {
			if m != o {
				m.sees(o)
			}
		}
	}
	ann.symbio("cluster", "promote", "bob")
	old := ann.symbio("cluster", "token", "--json")

	stop := make(chan struct{})
	var calling sync.WaitGroup
	var calls, failed atomic.Int64
	for _, m := range on {
		for _, o := range on {
			if m == o {
				continue
			}
			calling.Go(func() {
				for {
					_, err := m.client.Call(t.Context(), &symbiov1.CallRequest{Capability: "node.info", On: o.name, Timeout: durationpb.New(time.Minute)})
					if calls.Add(1); err != nil {
						failed.Add(1)
						t.Errorf("%s calls %s: %v", m.name, o.name, err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
	}
	end := sync.OnceFunc(func() { close(stop); calling.Wait() })
	defer end()
	more := func(n int64) {
		t.Helper()
		want := calls.Load() + n
		waittest.Until(t, "calls go on", func() (any, bool) { return calls.Load(), calls.Load() >= want || failed.Load() > 0 })
	}
	more(100)
	began := time.Now()
	ann.symbio("cluster", "rotate", "--now")
	took := time.Since(began)
	for _, m := range on {
		waittest.Until(t, m.name+" has a certificate of the new authority, and drops the old one", func() (any, bool) {
			stage, waiting := m.rotation()
			return []any{stage, waiting}, stage == "done" && !strings.Contains(strings.Join(waiting, " "), m.name)
		})
	}
	more(200)
	off.up()
	off.sees(on...)
	waittest.Until(t, "the node that was off has a certificate of the new authority", func() (any, bool) {
		stage, waiting := off.rotation()
		return []any{stage, waiting}, stage == "done" && len(waiting) == 0
	})
	more(100)
	end()
	t.Logf("replaced in %v; %d calls, %d failed", took, calls.Load(), failed.Load())

	// A token from before is still good, and the second holder lets nodes in with the new key.
	var token struct{ Token, Address string }
	if err := json.Unmarshal([]byte(old), &token); err != nil {
		t.Fatal(err)
	}
	dora, eve := newMachine(t, "dora"), newMachine(t, "eve")
	dora.symbio("cluster", "join", "--listen", "127.0.0.1:0", token.Token, token.Address)
	eve.joins(bob)
	for _, m := range []*machine{dora, eve} {
		m.up()
		m.sees(on...)
	}
}

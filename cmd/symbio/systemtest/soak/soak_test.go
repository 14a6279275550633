//go:build system && linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// soakNodes is how many nodes there are, unless symbiotest.SoakNodes says so.
const soakNodes = 6

// soakConfig offers something small, something that says back what it was sent, something that takes
// longer than any caller waits, and something that no rule allows.
const soakConfig = `
authorize:
  - {from: "*", invoke: [node.info, echo, slow]}
capabilities:
  - {name: echo, description: Says it again, exec: [cat]}
  - {name: slow, description: Takes its time, exec: [sleep, "5"]}
  - {name: secret, description: Nobody may, exec: [cat]}
skills: {enabled: false}
`

// soaked is a machine with a node that has load and faults.
type soaked struct {
	*symbiotest.Host
	log    *os.File
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	client symbiov1.ControlClient
	// shaken counts the beginnings and ends of what is done to the node's process itself: a call that it
	// makes meanwhile may end as it likes.
	shaken atomic.Int64
}

// start starts the node. It has to have ended, if it ran before.
func (s *soaked) start() {
	s.T.Helper()
	s.cmd = s.Inside("symbio", "up", "--name", s.Name(), "--config", filepath.Join(s.State, "soak.yaml"))
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
}

func (s *soaked) signal(sig syscall.Signal) {
	s.T.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.T.Fatal(err)
	}
}

// segment puts the machine's cable into one switch or another; nothing goes from one to the other, and
// the machine cannot tell.
func (s *soaked) segment(bridge string) {
	s.T.Helper()
	symbiotest.IP(s.T, "link", "set", s.Port("eth0"), "master", bridge)
}

// sees returns the names of the nodes that the node can call now, sorted.
func (s *soaked) sees(ctx context.Context) ([]string, error) {
	reply, err := s.client.Members(ctx, &symbiov1.MembersRequest{Provides: "echo"})
	var names []string
	for _, m := range reply.GetMembers() {
		if m.GetAvailable() {
			names = append(names, m.GetNodeName())
		}
	}
	slices.Sort(names)
	return names, err
}

// soakCluster makes n machines and makes them one cluster.
func soakCluster(t *testing.T, n int) []*soaked {
	t.Helper()
	symbiotest.IP(t, "link", "add", "br1", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
	symbiotest.IP(t, "link", "set", "br1", "up")
	var all []*soaked
	var hosts []*symbiotest.Host
	for i := range n {
		hosts = append(hosts, symbiotest.PlugIn(t, i+1))
		all = append(all, &soaked{Host: hosts[i]})
	}
	symbiotest.Acquaint(t, hosts...)
	for i, s := range all {
		listen := fmt.Sprintf("10.77.0.%d:7946", s.Number)
		if i == 0 {
			s.Symbio("cluster", "init", "--name", "lab", "--node", s.Name(), "--listen", listen)
		} else {
			line := all[0].Symbio("cluster", "token", "--node", all[0].Name())
			pasted := regexp.MustCompile(`symbio (cluster join SYM1-\S+ \S+)`).FindStringSubmatch(line)
			if pasted == nil {
				t.Fatalf("no line to paste in %q", line)
			}
			s.Symbio(append(strings.Fields(pasted[1]), "--node", s.Name(), "--listen", listen)...)
		}
		s.prepare()
		s.start()
		if i == 0 {
			s.ready() // it has to be there for the others to join
		}
	}
	return all
}

// prepare lays out what the node needs, and connects to its control socket for as long as the test goes.
func (s *soaked) prepare() {
	t := s.T
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.State, "soak.yaml"), []byte(soakConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.log, err = os.Create(filepath.Join(s.State, "log")); err != nil {
		t.Fatal(err)
	}
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second}
	s.conn, err = grpc.NewClient("unix:"+filepath.Join(s.State, "symbio", "nodes", s.Name(), "control.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick))
	if err != nil {
		t.Fatal(err)
	}
	s.client = symbiov1.NewControlClient(s.conn)
	t.Cleanup(func() {
		s.conn.Close()
		if s.cmd != nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
		s.log.Close()
	})
}

// ready waits until the node answers.
func (s *soaked) ready() {
	s.T.Helper()
	if _, err := s.client.Status(waittest.Context(s.T), &symbiov1.StatusRequest{}, grpc.WaitForReady(true)); err != nil {
		s.T.Fatalf("%s is not ready: %v\n%s", s.Name(), err, s.said())
	}
}

// said is the end of what the node printed.
func (s *soaked) said() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// soak is a cluster that something is done to.
type soak struct {
	t      *testing.T
	all    []*soaked
	random *rand.Rand
	load   *load
	hold   time.Duration // the longest that a fault lasts
	faults map[string]int
	heals  []time.Duration
	seen   []time.Duration // how long it took until a fault was noticed that lasted long enough
}

// Six nodes under load, of which one after another is killed, frozen or cut off: every call ends in one
// answer or typed error and in time, the others go on, all are whole again soon after, and nothing
// grows. It takes 8 s, with one fault of each kind; `make soak` takes ten minutes, with as many nodes as it is told.
func TestNodesUnderLoadAndFaults(t *testing.T) {
	t.Parallel() // with the other one that takes long
	symbiotest.OnASwitch(t, func(t *testing.T) {
		span, every, hold := 8*time.Second, 2*time.Second, 1500*time.Millisecond
		if text := os.Getenv(symbiotest.SoakSpan); text != "" {
			var err error
			if span, err = time.ParseDuration(text); err != nil {
				t.Fatalf("%s: %v", symbiotest.SoakSpan, err)
			}
			every, hold = 10*time.Second, 6*time.Second
		}
		seed, n := number(t, symbiotest.SoakSeed, 1), number(t, symbiotest.SoakNodes, soakNodes)
		t.Logf("%d nodes, %v, a fault every %v, seed %d", n, span, every, seed)
		s := &soak{t: t, all: soakCluster(t, int(n)), random: rand.New(rand.NewPCG(seed, 0)), hold: hold, faults: map[string]int{}}
		s.load = newLoad(s.all)
		s.whole("at first", time.Now(), time.Minute) // who joined last may have to be looked for a few times

		s.load.run(func() { symbiotest.Pause(t, span/10) })
		before := s.figures("before")
		s.load.run(func() { s.shake(span, every) })
		after := s.figures("after")

		s.report()
		s.compare(before, after)
		s.load.check(t)
		if t.Failed() {
			for _, n := range s.all {
				t.Logf("%s said last:\n%s", n.Name(), n.said())
			}
		}
	})
}

// number returns the number in a variable, or what there is without it.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// shake lets fault follow fault.
func (s *soak) shake(span, every time.Duration) {
	begun := time.Now()
	kinds := map[string]func() func(){"kill -9": s.kill, "freeze": s.freeze, "partition": s.partition}
	var round []string
	for n := time.Duration(1); n*every < span && !s.t.Failed(); n++ {
		if len(round) == 0 { // each kind comes once, in some order, before one comes again
			round = []string{"kill -9", "freeze", "partition"}
			s.random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		kind := round[0]
		round = round[1:]
		symbiotest.Pause(s.t, time.Until(begun.Add(n*every)))
		s.faults[kind]++
		mend := kinds[kind]()
		at := time.Now()
		mend()
		s.heals = append(s.heals, s.whole(kind, at, 5*time.Second*symbiotest.Slow))
	}
	symbiotest.Pause(s.t, time.Until(begun.Add(span)))
}

// lasting is for how long the next fault lasts.
func (s *soak) lasting() time.Duration {
	return s.hold/8 + time.Duration(s.random.Int64N(int64(s.hold*7/8)))
}

// kill ends a node as a crash does, and after a while it is started again.
func (s *soak) kill() (mend func()) {
	victim := s.all[s.random.IntN(len(s.all))]
	victim.shaken.Add(1)
	victim.signal(syscall.SIGKILL)
	var exit *exec.ExitError
	if err := victim.cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		s.t.Errorf("%s had ended before it was killed: %v\n%s", victim.Name(), err, victim.said())
	}
	s.noticed("kill -9 of "+victim.Name(), s.lasting(), victim)
	return func() {
		victim.start()
		victim.ready()
		victim.shaken.Add(1)
	}
}

// freeze stops a node where it is, as a laptop that is closed does.
func (s *soak) freeze() (mend func()) {
	victim := s.all[s.random.IntN(len(s.all))]
	victim.shaken.Add(1)
	victim.signal(syscall.SIGSTOP)
	s.noticed("freeze of "+victim.Name(), s.lasting(), victim)
	return func() {
		victim.signal(syscall.SIGCONT)
		victim.shaken.Add(1)
	}
}

// partition cuts off one to three of the nodes, which still have each other.
func (s *soak) partition() (mend func()) {
	order := s.random.Perm(len(s.all))
	var cut []*soaked
	for _, i := range order[:1+s.random.IntN(len(s.all)/2)] {
		cut = append(cut, s.all[i])
		s.all[i].segment("br1")
	}
	s.noticed(fmt.Sprint("partition of ", names(cut)), s.lasting(), cut...)
	return func() {
		for _, n := range cut {
			n.segment("br0")
		}
	}
}

func names(all []*soaked) (names []string) {
	for _, n := range all {
		names = append(names, n.Name())
	}
	slices.Sort(names)
	return names
}

// noticed lets a fault last, and sees to it that the others notice it if they have the time that the
// failure table gives them (architecture): three missed heartbeats, and one that was just sent.
func (s *soak) noticed(what string, lasting time.Duration, gone ...*soaked) {
	begun := time.Now()
	rest := slices.DeleteFunc(slices.Clone(s.all), func(n *soaked) bool { return slices.Contains(gone, n) })
	ok, odd := s.until(begun.Add(lasting), rest, rest)
	took := time.Since(begun)
	switch {
	case ok:
		s.seen = append(s.seen, took)
		s.t.Logf("%s: noticed after %v", what, took.Round(time.Millisecond))
	case symbiotest.Promised() && lasting > 4*time.Second*symbiotest.Slow:
		s.t.Errorf("%s was not noticed in %v: %s", what, lasting, odd)
	}
	symbiotest.Pause(s.t, time.Until(begun.Add(lasting)))
}

// whole waits until all nodes see all, and says how long that took.
func (s *soak) whole(after string, since time.Time, promise time.Duration) time.Duration {
	waittest.Until(s.t, after+": all nodes see all", func() (any, bool) {
		odd := s.odd(s.all, s.all)
		return odd, odd == ""
	})
	now := time.Now()
	symbiotest.Within(s.t, after+": all nodes see all", since, now, promise)
	return now.Sub(since)
}

// until waits until those nodes see each other and nobody else, or the time has come; odd says who does
// not.
func (s *soak) until(deadline time.Time, these, each []*soaked) (ok bool, odd string) {
	for {
		if odd = s.odd(these, each); odd == "" || !time.Now().Before(deadline) {
			return odd == "", odd
		}
		symbiotest.Pause(s.t, 10*time.Millisecond)
	}
}

// odd says which of the nodes does not see each of those and only them; it is empty if all do.
func (s *soak) odd(these, each []*soaked) string {
	for _, n := range these {
		want := slices.DeleteFunc(names(each), func(name string) bool { return name == n.Name() })
		if got, err := n.sees(s.t.Context()); err != nil || !slices.Equal(got, want) {
			return fmt.Sprintf("%s sees %v, want %v, %v", n.Name(), got, want, err)
		}
	}
	return ""
}

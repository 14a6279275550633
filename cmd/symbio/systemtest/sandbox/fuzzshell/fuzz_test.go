//go:build system && linux

// Package fuzzshell_test runs random programs in bash, in the box for commands that only look, and looks whether one of
// them had an effect (decision 0058). `make fuzz-shell` runs many.
package fuzzshell_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"symbio/internal/community/waittest"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

var (
	scripts = flag.Int("scripts", 300, "how many scripts are made")
	seed    = flag.Uint64("seed", 1, "which scripts are made")
	first   = flag.Int("first", 0, "the number of a script that a run before has reported: the first ones are left out")
)

// TestMain makes this process the parent of orphans, so that leftovers finds them.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// batch is how many scripts run in one box, one after the other.
const batch = 150

// driver runs the scripts that it reads, and prints the number and the status of each that has ended. One that takes
// longer than a second or two is ended: of that one less is seen.
const driver = `set -m
coproc W { cur=; while :; do
  if read -r -t 1 p; then cur=$p; elif (($? <= 128)); then exit; elif [[ $cur ]]; then kill -9 -- "-$cur"; cur=; fi
done; }
n=0
while IFS= read -r -d '' s; do
  bash --norc --noprofile -c "$s" </dev/null >/dev/null 2>&1 &
  echo $! >&"${W[1]}"
  wait $!
  echo "$n $?"
  n=$((n + 1))
done`

// place is a world with the box for its commands.
type place struct {
	*world
	box    *sandbox.Box
	policy sandbox.Policy
	chain  permission.Chain
}

// newPlace makes a world, and a box that only looks.
func newPlace(t *testing.T, odd bool) *place {
	t.Helper()
	p := &place{world: newWorld(t, odd), chain: permission.Chain{{Name: "agent", Policy: permission.Standard(), Memory: new(permission.Memory)}}}
	p.box = sandbox.Probe(waittest.Context(t), sandbox.Config{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:" + p.home + "/.local/bin", "HOME=" + p.home, "LANG=C.UTF-8"}, Home: p.home})
	if err := p.box.Looks(); err != nil {
		t.Skip(err)
	}
	var err error
	p.policy, err = sandbox.Look([]string{p.workspace})
	p.must(err)
	return p
}

// made is a script, and what is to run of it.
type made struct {
	number       uint64
	text, access string
	verdict      permission.Verdict
}

// make returns a script and its verdict.
func (p *place) make(number uint64) made {
	m := made{number: number}
	m.text, m.access = script(*seed, number, p.world)
	args := map[string]any{"command": m.text}
	if m.access != "" {
		args[permission.AccessArg] = m.access
	}
	m.verdict = p.chain.Judge(permission.Call{Tool: "Bash", Args: args, Dir: p.workspace, HasBox: func(permission.Box) bool { return true }, Kept: func(*permission.FileDenials) bool { return true }})
	return m
}

// tally counts what became of scripts.
type tally struct {
	allowed, asked, denied, slow, cut, failed int
	access                                    int // asked about since they ask for more than to look
}

// judge counts the verdict, and returns whether the script is to run.
func (n *tally) judge(t *testing.T, m made) bool {
	switch v := m.verdict; {
	case v.Action == permission.Ask:
		if n.asked++; m.access == "write" || m.access == "network" {
			n.access++
		}
		return false
	case v.Action == permission.Deny:
		n.denied++
		return false
	case v.Box != permission.BoxLook || v.Plan == nil || v.Plan.Script == "":
		t.Errorf("seed %d, script %d: allowed by %q in box %q (%s)\n%s", *seed, m.number, v.Rule, v.Box, v.Why, m.text)
		return false
	}
	n.allowed++
	return true
}

// run runs scripts in the box, and in further ones where a script ends the driver.
func (p *place) run(all []made, n *tally) {
	for len(all) > 0 {
		var in strings.Builder
		for _, m := range all {
			in.WriteString(m.verdict.Plan.Script + "\x00")
		}
		ctx, cancel := context.WithTimeout(waittest.Context(p.t), 2*time.Minute)
		r, err := p.box.Run(ctx, p.policy, sandbox.Spec{Argv: []string{"bash", "--norc", "--noprofile", "-c", driver}, Dir: p.workspace, Stdin: strings.NewReader(in.String()), Accept: true})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			p.t.Errorf("the box: %v", err)
			return
		}
		done := 0
		for line := range strings.Lines(r.Stdout.String()) {
			var number, status int
			if _, err := fmt.Sscan(line, &number, &status); err != nil || number != done {
				continue // a script has found a way to the driver's output
			}
			done++
			switch status {
			case 0:
			case 128 + int(syscall.SIGKILL):
				n.slow++
			default:
				n.failed++
			}
		}
		if done < len(all) {
			done++
			n.cut++
		}
		all = all[min(done, len(all)):]
	}
}

// No script that was not asked about has an effect: it changes no file, connects to nothing, harms no process, leaves none,
// and has the user's next git run nothing.
func TestScriptsHaveNoEffect(t *testing.T) {
	begun := time.Now()
	places := make([]*place, min(4*runtime.NumCPU(), max(2, *scripts/batch/2*2))) // an even number; more than processors, since a slow script only waits
	for i := range places {
		places[i] = newPlace(t, i%2 == 1)
	}
	tallies := make([]tally, len(places))
	next, rounds := *first-*first%(len(places)*batch), 0 // each script is made for the world that it had
	from, end := next, *first+*scripts
	for next < end && !t.Failed() {
		waiting := make([][]made, len(places))
		var running sync.WaitGroup
		for i, p := range places {
			begin := next
			next = min(next+batch, end)
			stop := next
			running.Go(func() {
				for number := begin; number < stop; number++ {
					if m := p.make(uint64(number)); tallies[i].judge(t, m) {
						waiting[i] = append(waiting[i], m)
					}
				}
				p.run(waiting[i], &tallies[i])
			})
		}
		running.Wait()
		left := leftovers(t)
		if len(left) > 0 {
			t.Errorf("seed %d: processes are left: %q", *seed, left)
		}
		for i, p := range places {
			if found := p.effects(); len(found) > 0 || len(left) > 0 {
				blame(t, i%2 == 1, waiting[i], found)
			}
		}
		if rounds++; rounds%10 == 0 {
			t.Logf("%d scripts after %v", next-from, time.Since(begun).Round(time.Second))
		}
	}
	var n tally
	for _, one := range tallies {
		n = tally{n.allowed + one.allowed, n.asked + one.asked, n.denied + one.denied, n.slow + one.slow, n.cut + one.cut, n.failed + one.failed, n.access + one.access}
	}
	share := func(part int) string {
		return fmt.Sprintf("%d (%.1f %%)", part, 100*float64(part)/float64(max(next-from, 1)))
	}
	t.Logf("seed %d: %d scripts at the level %v in %v: %s allowed in the look box, and run; %s asked about, of these %d for their access; %s denied", *seed, next-from, places[0].box.Status().Level, time.Since(begun).Round(time.Second), share(n.allowed), share(n.asked), n.access, share(n.denied))
	t.Logf("of those run, %d ended with a status other than 0, %d were slow, and %d ended their driver", n.failed, n.slow, n.cut)
	if n.allowed == 0 {
		t.Error("nothing was tested")
	}
}

// blame runs the scripts of a batch again, each alone in a world of its own if need be, and reports those with effects.
func blame(t *testing.T, odd bool, all []made, found []string) {
	t.Helper()
	t.Errorf("seed %d: the %d scripts from %d had effects:\n%s", *seed, len(all), all[0].number, strings.Join(found[:min(len(found), 10)], "\n"))
	guilty := 0
	p := newPlace(t, odd)
	for _, m := range all {
		if m = p.make(m.number); m.verdict.Action != permission.Allow {
			continue
		}
		p.run([]made{m}, new(tally))
		if found := append(p.effects(), leftovers(t)...); len(found) > 0 {
			t.Errorf("seed %d, script %d has effects:\n%s\n%s\nprinted:\n%s", *seed, m.number, strings.Join(found[:min(len(found), 10)], "\n"), m.text, m.verdict.Plan.Script)
			if guilty++; guilty == 3 {
				return
			}
			p = newPlace(t, odd)
		}
	}
	if guilty == 0 {
		t.Error("none of them has effects alone")
	}
}

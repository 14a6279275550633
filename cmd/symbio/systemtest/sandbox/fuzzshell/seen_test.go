//go:build system && linux

package fuzzshell_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"
	"symbio/security/sandbox"
)

// kinds are what effects begin with or hold, by which place they are in.
func (p *place) kinds(found []string) (kinds []string) {
	for _, line := range found {
		switch {
		case strings.Contains(line, "connections to @"):
			kinds = append(kinds, "abstract socket")
		case strings.Contains(line, "connections to /"):
			kinds = append(kinds, "unix socket")
		case strings.Contains(line, "connections to"):
			kinds = append(kinds, "tcp")
		case strings.Contains(line, "datagrams to"):
			kinds = append(kinds, "udp")
		case strings.HasPrefix(line, "by the user's next git"):
			kinds = append(kinds, "git")
		case strings.HasPrefix(line, p.workspace):
			kinds = append(kinds, "workspace")
		case strings.HasPrefix(line, p.home):
			kinds = append(kinds, "home")
		case strings.HasPrefix(line, p.outside):
			kinds = append(kinds, "outside")
		default:
			kinds = append(kinds, "temporary files")
		}
	}
	return kinds
}

// The scripts have effects where the box lets them, and they are seen: the same ones in a box that lets commands write
// everywhere in the world and use the network.
func TestScriptsHaveEffectsInAWiderBox(t *testing.T) {
	places := []*place{newPlace(t, false), newPlace(t, true)}
	seen, ran, had := map[string]int{"workspace": 0, "home": 0, "outside": 0, "temporary files": 0, "tcp": 0, "udp": 0, "unix socket": 0}, 0, 0
	missing := func() bool { return slices.Contains(slices.Collect(maps.Values(seen)), 0) }
	for i, p := range places {
		p.widen()
		for number := i; number < 1000 && (i == 0 && ran < 50 || missing()); number += 2 {
			m := p.make(uint64(number))
			if !new(tally).judge(t, m) {
				continue
			}
			if m.text = m.verdict.Plan.Script; strings.Contains(m.text, p.process()) {
				continue // it may end the process that its world has
			}
			p.run([]made{m}, new(tally))
			ran++
			found := p.effects()
			for _, kind := range p.kinds(found) {
				seen[kind]++
			}
			if len(found) > 0 {
				had++
				p = newPlace(t, i == 1)
				p.widen()
			}
		}
	}
	t.Logf("%d of %d had effects: %v", had, ran, seen)
	if missing() {
		t.Error("effects of some kinds are not seen")
	}
}

// widen lets commands write in the world but in /dev, and use the network and the socket.
func (p *place) widen() {
	files, err := sandbox.Custom([]string{"/"}, []string{p.base, p.canaries[0], p.canaries[1]})
	p.must(err)
	files.Sockets, files.Temp = []string{p.socket}, false
	p.policy = sandbox.Policy{Files: files, Network: sandbox.NetworkFull, Subprocess: true, Unprotected: true, Limits: p.policy.Limits}
}

// What the boxes of other tests do not let happen is seen, too: a process that is left, and a program that the user's git
// executes, and what is done to the process.
func TestWhatIsLeftIsSeen(t *testing.T) {
	w := newWorld(t, false)
	if found := append(w.effects(), leftovers(t)...); len(found) > 0 {
		t.Fatalf("nothing was done, and seen is %q", found)
	}
	w.person(`git config core.fsmonitor "echo x >> ` + w.outside + `/planted #"`)
	if found := fmt.Sprint(w.effects()); !strings.Contains(found, "by the user's next git: "+w.outside+"/planted") {
		t.Errorf("git has executed what was planted, and seen is %s", found)
	}
	w.must(syscall.Kill(w.victim.Process.Pid, syscall.SIGSTOP))
	waittest.Until(t, "the process to be seen stopped", func() (any, bool) { // at once, or by the next look
		found := fmt.Sprint(w.effects())
		return found, strings.Contains(found, "stopped or dead: true")
	})
	out, err := exec.Command("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!").Output()
	w.must(err)
	var pid int
	if _, err := fmt.Sscan(string(out), &pid); err != nil {
		t.Fatal(err)
	}
	if found := leftovers(t); len(found) != 1 {
		t.Errorf("a process is left, and seen is %q", found)
	}
	left, err := os.FindProcess(pid)
	w.must(err)
	w.must(left.Kill())
}

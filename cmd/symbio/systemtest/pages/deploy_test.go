//go:build system && linux

package pages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// operator runs the commands of deploy/README.md on one of three machines, word for word.
type operator struct {
	*symbiotest.Host
	node   *symbiotest.Process
	others map[string]bool // ids of the members that its node sees
}

// joinLine is a line as the page and the program print it.
var joinLine = regexp.MustCompile(`symbio cluster join SYM1-\S+ (\S+)`)

// follows runs the lines of a block in a shell of the machine; pasted takes the place of the page's
// example of a token. It returns what was printed.
func (r *operator) follows(block, pasted string) string {
	r.T.Helper()
	var printed strings.Builder
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "symbio up"):
			r.up(line)
		default:
			if joinLine.MatchString(line) {
				line = pasted
			}
			out, err := r.shell(line).CombinedOutput()
			if err != nil {
				r.T.Fatalf("machine %d: %s: %v\n%s", r.Number, line, err, out)
			}
			r.T.Logf("machine %d$ %s\n%s", r.Number, line, out)
			printed.Write(out)
		}
	}
	return printed.String()
}

// shell returns a command line on the machine, which has a host name of its own as a real one has.
func (r *operator) shell(line string) *exec.Cmd {
	return r.Inside("unshare", "--uts", "sh", "-c", fmt.Sprintf("hostname machine%d && %s", r.Number, line))
}

// up starts the node in another terminal, and ends the one that was there.
func (r *operator) up(command string) {
	if r.node != nil {
		if err := r.node.Cmd.Process.Signal(os.Interrupt); err != nil {
			r.T.Fatal(err)
		}
		r.node.Ended(r.T)
	}
	r.T.Logf("machine %d$ %s", r.Number, command)
	r.node = symbiotest.Started(r.T, r.shell("exec "+command+" --json"))
	r.node.Expect(r.T, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	r.others = map[string]bool{}
}

// sees waits until the machine's node sees so many others.
func (r *operator) sees(n int) {
	r.T.Helper()
	if len(r.others) == n {
		return
	}
	r.node.Expect(r.T, strconv.Itoa(n)+" others joined", func(l symbiotest.Line) bool {
		switch l.Type {
		case "joined":
			r.others[l.Agent] = true
		case "left":
			delete(r.others, l.Agent)
		}
		return len(r.others) == n
	})
}

// Three machines with nothing but the binary, an operator, and the page: the section "By hand" leads to
// three nodes that see each other and work for each other.
func TestDeployPageGivesThreeNodes(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		page, err := os.ReadFile("../../../../deploy/README.md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(page), "\n## By hand\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var blocks []string
		for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
			blocks = append(blocks, m[1])
		}
		if len(blocks) < 7 {
			t.Fatalf("the section has %d blocks of commands, want init, join, token, nodes, authorize, invoke, doctor", len(blocks))
		}
		begin, join, token, look, allow, work, check := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5], blocks[6]

		var machines []*operator
		for n := range 3 {
			h := symbiotest.PlugIn(t, 1+n)
			address := []string{"192.168.1.10/24", "192.168.1.11/24", "192.168.1.12/24"}[n]
			for _, args := range [][]string{{"addr", "flush", "dev", "eth0", "scope", "global"}, {"addr", "add", address, "dev", "eth0"}} {
				if out, err := h.Inside(append([]string{"ip"}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("ip %v: %v\n%s", args, err, out)
				}
			}
			if err := os.Symlink(h.State, filepath.Join(h.State, ".config")); err != nil { // where inside puts it
				t.Fatal(err)
			}
			machines = append(machines, &operator{Host: h})
		}
		first := machines[0]

		pasted := joinLine.FindStringSubmatch(first.follows(begin, ""))
		for _, r := range machines[1:] {
			if pasted == nil {
				t.Fatal("no line to paste was printed")
			}
			if shown := joinLine.FindStringSubmatch(join); shown == nil || shown[1] != pasted[1] {
				t.Fatalf("the page shows %q, and printed was %q", shown, pasted)
			}
			r.follows(join, pasted[0])
			pasted = joinLine.FindStringSubmatch(first.follows(token, ""))
		}
		for _, r := range machines {
			r.sees(2)
			got := strings.Fields(strings.Join(regexp.MustCompile(`\b(self|connected)\b`).FindAllString(r.follows(look, ""), -1), " "))
			slices.Sort(got)
			if want := []string{"connected", "connected", "self"}; !slices.Equal(got, want) {
				t.Errorf("machine %d shows nodes %v, want %v", r.Number, got, want)
			}
		}
		for _, r := range machines {
			if got := r.follows(allow, ""); !strings.Contains(got, "node.listen\t:7946\tthe cluster of node") {
				t.Errorf("machine %d: symbio config does not say where its node listens, and why:\n%s", r.Number, got)
			}
		}
		for _, r := range machines {
			r.sees(2)
			if got := r.follows(work, ""); !strings.Contains(got, `"protocol"`) {
				t.Errorf("machine %d: invoke printed %q", r.Number, got)
			}
			r.follows(check, "")
		}
	})
}

//go:build system && linux

package guests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"
)

// edits spawns Claude Code on the machine, and gives it the task to replace a text of notes.txt.
func (m *machine) edits(agent, from, to string) {
	m.T.Helper()
	m.Symbio("agents", "spawn", "claude", "--node", "kitchen", "--name", agent)
	args, err := json.Marshal(map[string]string{"file_path": filepath.Join(m.State, "there/notes.txt"), "old_string": from, "new_string": to})
	if err != nil {
		m.T.Fatal(err)
	}
	m.Symbio("send", "--node", "kitchen", "--no-reply", agent, "task", "CALL mcp__acp__Edit "+string(args))
}

// holds wants the notes of the machine to be so.
func (m *machine) holds(when, want string) {
	m.T.Helper()
	if got, err := os.ReadFile(filepath.Join(m.State, "there/notes.txt")); err != nil || string(got) != want {
		m.T.Errorf("%s the file holds %q, %v, want %q", when, got, err, want)
	}
}

// A person at the desk answers the questions of Claude Code in the kitchen: in top, and in the browser of a third machine. Each shows
// the change and comes once, and nothing is changed before the answer.
func TestGuestOfAnotherMachineIsAnsweredHere(t *testing.T) {
	bin := programs(t)
	symbiotest.OnASwitch(t, func(t *testing.T) {
		desk, kitchen := newMachines(t, bin)
		asked := 0
		done := func(agent string) {
			t.Helper()
			kitchen.node.Expect(t, "the end of the task", func(l symbiotest.Line) bool {
				if l.Type == "approval" {
					asked++
				}
				return l.Type == "done" && l.Name == agent
			})
		}
		kitchen.edits("cook", "two", "TWO")
		id := waiting(t, desk)
		t.Logf("$ symbio approvals show\n%s", desk.Symbio("approvals", "show", id))
		out := desk.Symbio("approvals", "list")
		t.Logf("$ symbio approvals list\n%s", out)
		if !strings.Contains(out, "\tkitchen\tcook\tEdit\t") || !strings.Contains(out, "\tIt works on ") {
			t.Errorf("approvals list prints\n%s", out)
		}
		top := symbiotest.OnScreen(t, desk.symbio("top"))
		top.Has("cook", "kitchen", "Edit")
		top.Types("a")
		t.Logf("$ symbio top\n%s", top.Has("cook wants to use Edit on kitchen", "-two", "+TWO", "yes, once"))
		kitchen.holds("before the answer", "one\ntwo\n")
		top.Types("y")
		done("cook")
		kitchen.holds("after a yes in top", "one\nTWO\n")

		kitchen.edits("baker", "one", "ONE")
		waiting(t, desk)
		answerInBrowser(t, desk)
		done("baker")
		kitchen.holds("after a yes in the browser", "ONE\nTWO\n")
		if asked != 2 {
			t.Errorf("the kitchen asked %d times, want once for each of two edits", asked)
		}
		record := kitchen.Symbio("permissions", "audit", "show", "--node", "kitchen")
		t.Logf("$ symbio permissions audit show\n%s", record)
		if n := strings.Count(record, "symbio approvals on node desk"); n != 4 || strings.Count(record, ", just before") != 2 { // the permission, and the edit
			t.Errorf("%d decisions of the person at the desk are in the record of the kitchen, want 4:\n%s", n, record)
		}
	})
}

// answerInBrowser opens the desk's dashboard on another machine of the LAN, and allows there what waits.
func answerInBrowser(t *testing.T, desk *machine) {
	t.Helper()
	out := desk.Symbio("dashboard", "--lan", "--listen", "10.77.0.1:8443", "--no-open")
	address := regexp.MustCompile(`https://\S+`).FindString(out)
	if address == "" {
		t.Fatalf("symbio dashboard --lan printed %q", out)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.IgnoreCertErrors)
	ctx, cancel := chromedp.NewContext(waittest.Context(t), chromedp.WithAllocatorOptions(options...), chromedp.WithErrorf(func(string, ...any) {}))
	defer cancel()
	see := func(text string) (page string) {
		t.Helper()
		waittest.Until(t, "the page to show "+text, func() (any, bool) {
			var err error
			page, err = chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			return page, err == nil && strings.Contains(page, text)
		})
		return page
	}
	click := func(element string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(element))); err != nil {
			t.Fatalf("click %s: %v", element, err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatalf("open the dashboard: %v", err)
	}
	see("Community")
	click(`header a[href="/approvals"]`)
	see("baker wants to use Edit")
	t.Logf("the dashboard:\n%s", see("+ONE"))
	click(`article button[value="allow"]`)
	see("allowed")
}

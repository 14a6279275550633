//go:build system && linux

package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// watchedConfig is that of one of two nodes of one user. Writing files waits for a person.
const watchedConfig = `
node: {name: %s, listen: %q}
model: openai:m
providers: {openai: {base_url: "%s/v1"}}
agents: agents
workspace: .
sandbox: {preset: "off"}
discovery: {mdns: false, peers: [%q]}
approvals: {unattended: true}
permissions: {preset: none, default: ask, allow: [Read]}
`

// hostileText is what an agent, a model or a skill may say: HTML, Markdown with a link that acts, terminal escapes and
// a change of the direction of text.
const hostileText = "<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3)) \x1b[31mred\x1b]8;;http://evil.test\x07 \u202efdp.exe </pre></main>"

// hostileShown is how a page shows it.
const hostileShown = `<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3)) \x1b[31mred\x1b]8;;http://evil.test\a \u202efdp.exe </pre></main>`

// niceSkill and hostileSkill are skills of the workspace. Both ask for a rule.
const niceSkill = "---\nname: gardening\ndescription: Says when to plant what.\nallowed-tools: Write\n---\nPlant in spring.\n"

const hostileSkill = "---\nname: gardening\ndescription: <b onmouseover=alert(4)>Tidies up</b>\nallowed-tools: Write\n---\n<script>alert(5)</script>\n"

// watched are two nodes and a model that is told when to answer.
type watched struct {
	*browser
	a, b  *symbiotest.CrashNode
	model *symbiotest.StrictModel
	// says is what the model adds to all that it says.
	says string
	// gate lets the model answer a task that begins with Wait.
	gate chan struct{}
	// home is the address of the dashboard, without a slash at the end.
	home string
}

// answer is the model: it writes a file for a task that begins with Write, waits for the gate and reads one at
// a task that begins with Wait, and else says that it is done.
func (w *watched) answer(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
	begin := 0
	for i, m := range history {
		if m.Role == "user" {
			begin = i
		}
	}
	task := history[begin].Text
	call := symbiotest.ModelCall{ID: fmt.Sprint("call_", len(history)), Name: "Read", Args: json.RawMessage(`{"file_path":"notes.txt"}`)}
	switch {
	case begin < len(history)-1: // the call has a result
	case strings.HasPrefix(task, "Wait"):
		<-w.gate
		return symbiotest.ModelAnswer{Text: "I look at the notes.", Calls: []symbiotest.ModelCall{call}}
	case strings.HasPrefix(task, "Write"):
		call.Name = "Write"
		call.Args, _ = json.Marshal(map[string]string{"file_path": strings.Fields(task)[1], "content": "Three rows of them.\n" + w.says}) // strings cannot fail
		return symbiotest.ModelAnswer{Text: "I write it down.", Calls: []symbiotest.ModelCall{call}}
	}
	return symbiotest.ModelAnswer{Text: "Done. " + w.says}
}

// newWatched starts the nodes a and b, which see each other, and a browser in which the dashboard of a is open.
func newWatched(t *testing.T, skill string) *watched {
	t.Helper()
	w := &watched{browser: newBrowser(t), gate: make(chan struct{})}
	w.model = symbiotest.NewStrictModel(t, w.answer)
	dir, atA, atB := symbiotest.ShortDir(t), symbiotest.FreeAddress(t), symbiotest.FreeAddress(t)
	start := func(name, at, other string) *symbiotest.CrashNode {
		n := symbiotest.NewCrashNode(t, "symbio", dir, name, at, "openai", w.model, "")
		n.Write(name+".yaml", fmt.Sprintf(watchedConfig, name, at, w.model.URL, other), 0o600)
		n.Start("")
		return n
	}
	if err := os.MkdirAll(filepath.Join(dir, ".agents/skills/gardening"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".agents/skills/gardening/SKILL.md"), []byte(skill), 0o600); err != nil {
		t.Fatal(err)
	}
	w.a, w.b = start("a", atA, atB), start("b", atB, atA)
	return w
}

// address asks node a for an address of the dashboard, which can be opened once.
func (w *watched) address() string {
	w.t.Helper()
	cmd := exec.Command("symbio", "dashboard", "--no-open", "--node", "a")
	cmd.Env = w.a.Command("").Env
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("symbio dashboard: %v", err)
	}
	w.home, _, _ = strings.Cut(string(out), "/login")
	return strings.TrimSpace(string(out))
}

// at returns the address of the dashboard with another host.
func (w *watched) at(host string) string {
	return "http://" + host + w.home[strings.LastIndex(w.home, ":"):]
}

// enter opens the dashboard in the browser.
func (w *watched) enter() {
	w.t.Helper()
	w.open(w.address())
	w.until(`location.pathname == "/"`)
	w.see("h1", "Community")
}

// visit opens a page of the dashboard.
func (w *watched) visit(path string) {
	w.t.Helper()
	w.open(w.home + path)
}

// spawn starts an agent on a node.
func (w *watched) spawn(n *symbiotest.CrashNode, name string) *symbiov1.LocatedMember {
	w.t.Helper()
	m, err := n.Client.Spawn(w.t.Context(), &symbiov1.SpawnRequest{Agent: "general", Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// give sends a task to an agent and does not wait for the answer.
func (w *watched) give(n *symbiotest.CrashNode, member, task string) {
	w.t.Helper()
	_, err := n.Client.Send(w.t.Context(), &symbiov1.SendRequest{Member: member, Perception: "task", Data: []byte(task), NoReply: true})
	if err != nil {
		w.t.Fatal(err)
	}
}

// asked waits until the model was sent a history that begins with the word and has the text.
func (w *watched) asked(word, text string) {
	w.t.Helper()
	all := ""
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the model was told:\n%s", all)
		}
	}()
	symbiotest.Await(w.t, "the model is told: "+text, func() bool {
		w.model.Mu.Lock()
		defer w.model.Mu.Unlock()
		all = symbiotest.ToJSON(w.model.Histories[word])
		return strings.Contains(all, text)
	})
}

// waits reports whether the approval of a call by the agent waits on a.
func (w *watched) waits(name string) bool {
	r, err := w.a.Client.Approvals(w.t.Context(), &symbiov1.ApprovalsRequest{})
	return err == nil && slices.ContainsFunc(r.GetApprovals(), func(a *symbiov1.Approval) bool { return a.GetName() == name })
}

// exists reports whether a file is in the workspace.
func (w *watched) exists(file string) bool {
	_, err := os.Stat(filepath.Join(w.a.Dir, file))
	return err == nil
}

// place is the path of the page.
func (w *watched) place() string {
	w.t.Helper()
	path, err := chromedp.Run(w.ctx, chromedp.Evaluate[string]("location.pathname"))
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

// check looks at a page: in light and dark, where axe has no serious finding, and in a window of 400 pixels, which it does
// not leave.
func (w *watched) check(name, path, script string) {
	w.t.Helper()
	w.look("light", 1280)
	w.visit(path)
	for scheme, options := range map[string]string{"light": `{resultTypes: ["violations"]}`, "dark": `{runOnly: ["color-contrast"]}`} { // the rest is the same in the dark
		w.look(scheme, 1280)
		for _, f := range w.axe(script, options) {
			w.t.Errorf("page %s, %s: axe finds: %s: %s: %+v", name, scheme, f.Impact, f.Help, f.Nodes)
		}
		w.shoot(name + "-" + scheme)
	}
	w.look("light", 400)
	if !w.holds("document.documentElement.scrollWidth <= 400") {
		w.t.Errorf("page %s is wider than a window of 400 pixels", name)
	}
	w.shoot(name + "-narrow")
	w.look("light", 1280)
}

// tabTo presses Tab until the element has the focus.
func (w *watched) tabTo(element string) {
	w.t.Helper()
	for range 60 {
		w.do("press Tab", chromedp.KeyEvent(kb.Tab))
		if w.holds(fmt.Sprintf("document.activeElement.matches(%s)", symbiotest.ToJSON(element))) {
			return
		}
	}
	w.t.Fatalf("Tab never leads to %s\n%s", element, w.text())
}

// A person follows two nodes in the browser, and acts on both.
func TestDashboardOfTwoNodes(t *testing.T) {
	t.Parallel()
	w := newWatched(t, niceSkill)
	script := axeScript(t)

	address := w.address()
	w.open(address)
	w.see("h1", "Community")
	other := w.another()
	other.open(address)
	other.see("main", "used already")
	other.wantFaults("403")

	// An agent that is spawned on the other node comes into the page, which is not loaded again.
	w.see("main", "b")
	w.do("mark the page", chromedp.Evaluate[chromedp.Void]("window.mark = 1; undefined"))
	began := time.Now()
	gardener := w.spawn(w.b, "gardener")
	w.until(fmt.Sprintf(`document.getElementById("agent-%s")`, gardener.GetId()))
	symbiotest.Within(t, "the page shows an agent of the other node", began, time.Now(), time.Second)
	if !w.holds("window.mark") {
		t.Error("the page was loaded again")
	}

	// Its calls are answered: one is allowed by the mouse, another is denied with a reason by the keyboard alone.
	w.give(w.b, gardener.GetId(), "Write roses.txt for the garden.")
	w.click(`header a[href="/approvals"]`)
	w.see("main", "gardener wants to use Write")
	w.click(`article button[value="allow"]`)
	w.see("#notice", "allowed")
	symbiotest.Await(t, "the file is written", func() bool { return w.exists("roses.txt") })
	w.asked("Write", "roses.txt")
	w.give(w.b, gardener.GetId(), "Write tulips.txt next.")
	w.see("main", "tulips.txt")
	w.visit("/approvals")
	w.tabTo("a.skip")
	w.do("press Enter", chromedp.KeyEvent(kb.Enter))
	w.until(`document.activeElement.id == "main" || location.hash == "#main"`)
	w.tabTo(`input[name="reason"]`)
	w.do("type", chromedp.KeyEvent("no tulips this year"))
	w.tabTo(`button[value="deny"]`)
	w.do("press Enter", chromedp.KeyEvent(kb.Enter))
	w.see("#notice", "denied")
	w.asked("Write", "no tulips this year")
	if w.exists("tulips.txt") {
		t.Error("the call that was denied has written its file")
	}

	// What is said to it at work reaches the model.
	w.give(w.b, gardener.GetId(), "Wait for the rain.")
	w.visit("/agents/" + gardener.GetId())
	w.see("main", "working")
	w.fill("#text", "water the roses")
	w.click(`button[value="steer"]`)
	symbiotest.Await(t, "the text waits", func() bool {
		r, err := w.b.Client.Conversation(t.Context(), &symbiov1.ConversationRequest{Member: gardener.GetId()})
		return err == nil && r.GetWaiting() > 0
	})
	close(w.gate)
	w.asked("Write", "water the roses")
	w.see("#notice", "has your text")
	w.see("main", "Done.")

	// Each page is one that everybody can use.
	reader := w.spawn(w.a, "reader")
	w.give(w.a, reader.GetId(), "Tell me about compost.")
	w.asked("Tell", "compost")
	w.give(w.b, gardener.GetId(), "Write shed.txt, at last.")
	symbiotest.Await(t, "the call waits", func() bool { return w.waits("gardener") })
	w.visit("/sessions")
	w.see("main", "compost")
	w.click("tbody a")
	w.see("h1", "compost")
	session := strings.TrimPrefix(w.place(), "/sessions/")
	w.visit("/skills")
	w.see("main", "gardening")
	w.click("tbody a")
	w.see("main", "SHA-256")
	skill := w.place()
	for name, path := range map[string]string{
		"community": "/", "agent": "/agents/" + gardener.GetId(), "approvals": "/approvals", "sessions": "/sessions", "session": "/sessions/" + session,
		"cost": "/cost", "skills": "/skills", "proposal": skill, "nodes": "/nodes", "audit": "/audit", "refused": "/nowhere",
	} {
		w.check(name, path, script)
	}

	// Skills are switched, and trusted after a look.
	w.visit("/skills")
	w.click(`button[value="off"]`)
	w.see("#notice", "is off")
	w.click(`button[value="on"]`)
	w.see("#notice", "is on")
	w.visit(skill)
	w.click(`button[value="trust"]`)
	w.see("main", "--revoke")
	w.visit("/nodes")
	w.see("main", "connected")
	w.wantFaults("404") // of the page that does not exist, in three looks

	// After a restart the cookie is void. The conversation can be read, searched, forked and deleted.
	w.open("about:blank") // an open page would say that its node is gone
	w.a.Kill()
	w.a.Start("")
	w.enter()
	w.visit("/sessions")
	w.fill(`input[name="q"]`, "compost"+kb.Enter)
	w.see("caption", "Found")
	w.click("tbody a")
	w.see("main", "Tell me about compost.")
	w.see("main", "Done.")
	w.click(`button[value="fork"]`)
	w.see("main", "(fork)")
	w.click("tbody a")
	w.see("h1", "(fork)")
	w.click(`button[value="delete"]`)
	w.see("h1", "confirm")
	w.click("button.danger")
	w.see("h1", "Sessions")
	w.see("main", "compost")
	if w.holds(`document.querySelector("main").innerText.includes("(fork)")`) {
		t.Error("the session that was deleted is listed")
	}
	w.visit("/audit?tool=deny")
	w.see("main", "dashboard")
	w.see("main", "no tulips this year")
	w.wantFaults()
}

// What agents, models and skills say is text, whatever it looks like; and no other site acts on the dashboard.
func TestDashboardShowsHostileTextAsText(t *testing.T) {
	t.Parallel()
	w := newWatched(t, hostileSkill)
	w.says = hostileText
	w.enter()
	w.see("main", "b")
	agent := w.spawn(w.b, "<img src=x onerror=alert(6)>")
	w.see("main", "<img src=x onerror=alert(6)>")
	w.give(w.b, agent.GetId(), "Write x.txt "+hostileText)
	symbiotest.Await(t, "the call waits", func() bool { return w.waits(agent.GetName()) })
	local := w.spawn(w.a, "<script>alert(7)</script>")
	w.give(w.a, local.GetId(), "Say "+hostileText)
	w.asked("Say", "Say")
	w.see("main", "<script>alert(7)</script>")
	for path, shown := range map[string]string{
		"/": "<script>alert(7)</script>", "/approvals": hostileShown[:40], "/agents/" + agent.GetId(): "<img src=x onerror=alert(1)>", "/agents/" + local.GetId(): "Done. " + hostileShown,
		"/sessions": "<img src=x", "/sessions?q=alert": "<script>alert(2)</script>", "/skills": "<b onmouseover=alert(4)>", "/nodes": "connected",
	} {
		w.visit(path)
		w.see("main", shown)
	}
	w.visit("/sessions")
	w.click("tbody a")
	w.see("main", "Done. "+hostileShown)
	w.visit("/skills")
	w.click("tbody a")
	w.see("main", "<b onmouseover=alert(4)>")
	w.wantFaults()

	// Another page of this machine, which is of the same site for a browser, and one of another site.
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(out, `<form method="post" action="%s/approvals"><input name="action" value="allow"><input name="id" value="1"></form><script>document.forms[0].submit()</script>`, w.home)
	}))
	defer evil.Close()
	for _, from := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "evil.test", 1)} {
		w.do("open "+from, chromedp.Navigate(from))
		w.until("location.href.startsWith(" + symbiotest.ToJSON(w.home) + ")")
		w.until(`!document.querySelector("form") && document.body.innerText != ""`)
		w.wantFaults("403")
	}
	w.open(w.at("evil.test"))
	w.see("body", "not the address")
	w.wantFaults("Opener-Policy", "421") // the policy is of pages with TLS or of this machine

	// The cookie alone does not act.
	cookies, err := chromedp.Run(w.ctx, func(ctx context.Context, t *chromedp.Target) ([]*network.Cookie, error) {
		r, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{URLs: []string{w.home}})
		return r.Cookies, err
	})
	if err != nil || len(cookies) != 1 || !cookies[0].HTTPOnly {
		t.Fatalf("the cookies are %+v, %v; want one that no script reads", cookies, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.at("127.0.0.1")+"/approvals", strings.NewReader("action=allow&id=1"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = strings.TrimPrefix(w.home, "http://")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", cookies[0].Name+"="+cookies[0].Value)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusForbidden {
		t.Errorf("a stolen cookie without an origin gets %s", reply.Status)
	}
	if !w.waits(agent.GetName()) || w.exists("x.txt") {
		t.Error("the call that waited was answered")
	}

	// What a person says is text, too.
	w.visit("/approvals")
	w.fill(`input[name="reason"]`, "<script>alert(8)</script>")
	w.click(`button[value="deny"]`)
	w.see("#notice", "denied")
	w.visit("/audit?tool=deny")
	w.see("main", "alert(8)")
	w.wantFaults()
}

package dashboard_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/internal/agent/event/eventtest"
	"symbio/internal/agent/node/dashboard"
	"symbio/internal/security/audit"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

func TestTokenIsRefusedTheSecondTime(t *testing.T) {
	b := start(t, &control{})
	address := b.open()
	if code, _ := b.get(address); code != http.StatusOK {
		t.Fatalf("the first time: %d", code)
	}
	b.client.Jar = nil
	for _, again := range []string{address, address + "x", "/login?token=x"} {
		code, page := b.get(again)
		if code != http.StatusForbidden || !strings.Contains(page, "<kbd>symbio dashboard</kbd>") {
			t.Errorf("%s: %d %s", again, code, page)
		}
	}
	if code, _ := b.get("/approvals"); code != http.StatusUnauthorized {
		t.Errorf("after a replayed token: %d", code)
	}
}

// Programs that show what is behind a link in a message ask with HEAD.
func TestLookAtAddressDoesNotUseItUp(t *testing.T) {
	b := start(t, &control{})
	address := b.open()
	if code, _ := b.do(b.request(http.MethodHead, address, "")); code != http.StatusOK {
		t.Errorf("HEAD: %d", code)
	}
	if code, _ := b.get("/"); code != http.StatusUnauthorized {
		t.Errorf("after HEAD the browser is known: %d", code)
	}
	if code, page := b.get(address); code != http.StatusOK || title(page) != "Welcome" {
		t.Errorf("GET after HEAD: %d %s", code, title(page))
	}
}

func TestOnlyFilesForBrowsersAreServed(t *testing.T) {
	b := start(t, &control{})
	b.open()
	for path, want := range map[string]int{
		"/static/style.css": 200, "/static/%2e%2e/templates/agent.html": 404, "/static/..%2ftemplates/agent.html": 404, "/static/%2e%2e%2ftemplates%2fagent.html": 404,
		"/static/templates/agent.html": 404, "/static/static/style.css": 404,
	} {
		if code, page := b.get(path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, title(page))
		}
	}
}

func TestPagesHaveTheFormOfTheirSession(t *testing.T) {
	b := start(t, &control{all: family(), approvals: []*symbiov1.Approval{{Id: "1", Name: "bob"}}}).login()
	for _, path := range []string{"/agents/a1", "/approvals"} {
		_, page := b.get(path)
		if n := strings.Count(page, `<form method="post"`); n == 0 || n != strings.Count(page, `name="form" value="`+b.form()+`"`) {
			t.Errorf("%s: of %d forms not all have it:\n%s", path, n, page)
		}
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	b := start(t, &control{}).login()
	own := strings.TrimPrefix(b.origin, "http://")
	name, port, _ := strings.Cut(own, ":")
	if !strings.HasPrefix(name, "kitchen-") || !strings.HasSuffix(name, ".localhost") || len(name) < len("kitchen-.localhost")+16 {
		t.Errorf("its name is %s, want one that cannot be guessed", name)
	}
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:" + port: 421, "127.0.0.1": 421, "127.0.0.1:1": 421, "localhost": 421, "localhost.evil.example:" + port: 421, "[::1]:" + port: 421,
		"127.0.0.1:" + port: 421, "localhost:" + port: 421, "kitchen.localhost:" + port: 421, name: 421, name + ":1": 421, "x." + own: 421,
		own: 200, strings.ToUpper(own): 200,
	} {
		for _, path := range []string{"/login", "/static/style.css"} {
			r := b.request(http.MethodGet, path, "")
			r.Host = host
			if code, _ := b.do(r); code != want {
				t.Errorf("%s of host %s: %d, want %d", path, host, code, want)
			}
		}
	}
}

func TestPostMustComeFromDashboard(t *testing.T) {
	c := &control{}
	b := start(t, c).login()
	form := "&form=" + b.form()
	for name, headers := range map[string]map[string]string{
		"stolen cookie without origin": {},
		"cross-site":                   {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
		"another port of the host":     {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
		"typed":                        {"Sec-Fetch-Site": "none"},
		"old browser, elsewhere":       {"Origin": "https://evil.example"},
		"old browser, null":            {"Origin": "null"},
		"other scheme":                 {"Origin": strings.Replace(b.origin, "http:", "https:", 1)},
	} {
		r := b.request(http.MethodPost, "/approvals", "action=allow&id=1&digest=d"+form)
		for k, v := range headers {
			r.Header.Set(k, v)
		}
		if code, _ := b.do(r); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	for name, form := range map[string]string{"stolen cookie with all headers": "", "form of another session": "&form=" + strings.Repeat("A", 26)} {
		r := b.request(http.MethodPost, "/approvals", "action=allow&id=1&digest=d"+form)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Origin", b.origin)
		if code, _ := b.do(r); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if got := c.requests(); len(got) > 0 || len(b.recorded()) > 0 {
		t.Errorf("something was done: %v %v", got, b.recorded())
	}
	r := b.request(http.MethodPost, "/approvals", "action=allow&id=1&digest=d"+form)
	r.Header.Set("Origin", b.origin)
	if code, page := b.do(r); code != http.StatusOK || len(c.requests()) != 1 {
		t.Errorf("an old browser on the page: %d %s %v", code, title(page), c.requests())
	}
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	b := start(t, &control{}).login()
	for _, path := range []string{"/", "/static/style.css", "/nothing", "/login?token=x", "/agents/none"} {
		answer, err := b.client.Get(b.origin + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

// A page with code or a style inside of it would not work under the policy.
func TestPagesHaveNoInlineCode(t *testing.T) {
	b := start(t, &control{all: family(), approvals: []*symbiov1.Approval{{Id: "1", Name: "bob", Diff: "+x\n"}}}).login()
	for _, path := range []string{"/", "/agents/a1", "/approvals"} {
		_, page := b.get(path)
		for _, bad := range []string{"style=", "<style", " on", "javascript:"} {
			if i := strings.Index(page, bad+"click"); bad == " on" && i >= 0 || bad != " on" && strings.Contains(page, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		if strings.Count(page, "<script") != 1 || !strings.Contains(page, `<script src="/static/dashboard.js" defer></script>`) {
			t.Errorf("%s has other scripts", path)
		}
	}
}

func TestActionIsRecordedBeforeItActs(t *testing.T) {
	c := &control{}
	b := start(t, c).login()
	if code, _ := b.post("/approvals", url.Values{"action": {"deny"}, "id": {"7-ab"}, "digest": {"d"}, "reason": {" not today "}}); code != http.StatusOK {
		t.Fatalf("deny: %d", code)
	}
	got := b.recorded()
	if len(got) != 1 || got[0].Kind != audit.KindDashboard || got[0].Tool != "deny" || !got[0].Approved || !strings.Contains(string(got[0].Args), `"7-ab"`) || !strings.HasPrefix(got[0].By, "dashboard ") || !strings.HasSuffix(got[0].By, " from 127.0.0.1") {
		t.Errorf("records %+v", got)
	}
	want := &symbiov1.AnswerRequest{Id: "7-ab", Digest: "d", Reason: "not today", By: "dashboard"}
	if r := c.requests(); len(r) != 1 || r[0].(*symbiov1.AnswerRequest).String() != want.String() {
		t.Errorf("requests %v, want %v", r, want)
	}
	for holds, want := range map[string]*symbiov1.AnswerRequest{
		"0": {Offer: 1}, "good1": {Offer: 2, Lasting: true}, "good": {Lasting: true}, "agent": {Always: true}, "": {}, "x": {},
	} {
		before := len(c.requests())
		b.post("/approvals", url.Values{"action": {"allow"}, "id": {"7-ab"}, "for": {holds}})
		want.Id, want.Allow, want.By = "7-ab", true, "dashboard"
		if r := c.requests(); len(r) != before+1 || r[before].(*symbiov1.AnswerRequest).String() != want.String() {
			t.Errorf("for %q: %v, want %v", holds, r[before:], want)
		}
	}
	before := len(c.requests())
	b.mu.Lock()
	b.broken = true
	b.mu.Unlock()
	if code, page := b.post("/approvals", url.Values{"action": {"allow"}, "id": {"7-ab"}}); code != http.StatusInternalServerError || !strings.Contains(page, "the disk is full") {
		t.Errorf("without a record: %d %s", code, page)
	}
	if len(c.requests()) != before {
		t.Error("something was done without a record")
	}
}

func TestDestructiveActionAsksFirst(t *testing.T) {
	c := &control{all: family()}
	b := start(t, c).login()
	code, page := b.post("/agents/a1", url.Values{"action": {"terminate"}})
	if code != http.StatusOK || title(page) != "Please confirm" || !strings.Contains(page, `name="confirmed" value="yes"`) || len(c.requests())+len(b.recorded()) > 0 {
		t.Fatalf("the first time: %d %s %v", code, page, c.requests())
	}
	if code, page = b.post("/agents/a1", url.Values{"action": {"terminate"}, "confirmed": {"yes"}}); code != http.StatusOK || title(page) != "Community" {
		t.Errorf("confirmed: %d %s", code, title(page))
	}
	if r := c.requests(); len(r) != 1 || r[0].(*symbiov1.TerminateRequest).GetMember() != "a1" {
		t.Errorf("requests %v", r)
	}
}

func TestLargeBodyIsRefused(t *testing.T) {
	c := &control{}
	b := start(t, c).login()
	if code, _ := b.post("/approvals", url.Values{"action": {"deny"}, "reason": {strings.Repeat("x", 70<<10)}}); code != http.StatusBadRequest || len(c.requests()) > 0 {
		t.Errorf("got %d", code)
	}
}

func TestTextOfOthersIsText(t *testing.T) {
	const hostile = "<script>alert(1)</script>\x1b[31m\u202e\u200b\"'<img src=x onerror=alert(1)>"
	all := family()
	all.Nodes[0].Name, all.Agents[0].Name, all.Agents[0].Task, all.Agents[0].Model, all.Agents[0].Parent = hostile, hostile, hostile, hostile, hostile
	all.Agents[0].Calls = []*symbiov1.FleetCall{{Call: hostile, Tool: hostile, Args: hostile}}
	all.Events = []*symbiov1.Event{{Json: eventtest.Line(hostile, hostile, "a1", `{"name":"<script>"}`)}, {Json: []byte(`[`)}}
	b := start(t, &control{all: all, said: hostile, approvals: []*symbiov1.Approval{{Id: hostile, Name: hostile, For: []string{hostile}, Tool: hostile, Args: []byte(`{"<script>":1}`), Why: hostile, Rule: hostile, Rules: []string{hostile}, Diff: hostile}}}).login()
	for _, path := range []string{"/", "/agents/a1", "/approvals"} {
		code, page := b.get(path)
		if code != http.StatusOK || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s: %d %s", path, code, page)
		}
		for _, bad := range []string{"<script>", "<img", "\x1b", "\u202e", "\u200b"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}

func TestStreamSendsPageAfterChange(t *testing.T) {
	c := &control{all: family(), changes: make(chan *symbiov1.FleetChange)}
	b := start(t, c).login()
	r := b.request(http.MethodGet, "/", "")
	r.Header.Set("Accept", "text/event-stream")
	answer, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended without %q", want)
	}
	until(">bob</a>")
	c.changes <- &symbiov1.FleetChange{Agents: []*symbiov1.FleetAgent{{Id: "a2", Name: "newcomer", Node: "n1", Parent: "a1"}}}
	until(">newcomer</a>")
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	c.changes <- &symbiov1.FleetChange{RemovedNodes: []string{"n1"}}
	until("0 machines, 0 agents")
}

func TestStreamsAreLimited(t *testing.T) {
	b := start(t, &control{all: family()}).login()
	for i := range 17 {
		r := b.request(http.MethodGet, "/approvals", "")
		r.Header.Set("Accept", "text/event-stream")
		answer, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if want := []int{200, 503}[i/16]; answer.StatusCode != want {
			t.Fatalf("stream %d: %d, want %d", i+1, answer.StatusCode, want)
		}
	}
}

func TestDashboardListensWhereItMay(t *testing.T) {
	alone := start(t, &control{})
	member := start(t, &control{}, func(c *dashboard.Config) { c.Identity, c.Listen = newCluster(t).node(t, ""), "127.0.0.1:1" })
	for _, one := range []struct {
		on     *board
		lan    bool
		listen string
		refuse bool
	}{
		{alone, false, "0.0.0.0:0", true}, {alone, false, "192.0.2.1:80", true}, {alone, false, "nonsense", true}, {alone, false, "localhost:0", true}, {alone, true, "", true},
		{member, true, "", true}, {member, true, "0.0.0.0:0", true}, {member, true, "[::]:0", true},
		{alone, false, "", false},
	} {
		_, err := one.on.Open(t.Context(), &symbiov1.DashboardRequest{Lan: one.lan, Listen: one.listen})
		if errors.Is(err, dashboard.ErrListen) != one.refuse || !one.refuse && err != nil {
			t.Errorf("lan %v, listen %q: %v", one.lan, one.listen, err)
		}
	}
}

// cluster is a cluster with its authority and first node.
type cluster struct {
	*identity.Cluster
	seed *identity.Identity
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c, err := identity.CreateCluster(filepath.Join(t.TempDir(), "cluster"), "home")
	if err != nil {
		t.Fatal(err)
	}
	seed, err := c.Issue(newKey(t), "seed")
	if err != nil {
		t.Fatal(err)
	}
	return cluster{c, seed}
}

// node lets a node with a role join the cluster.
func (c cluster) node(t *testing.T, role string) *identity.Identity {
	t.Helper()
	if role == "" {
		return c.seed
	}
	token, err := c.NewToken(time.Hour, role)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.seed.JoinTLS())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	states := make(chan tls.ConnectionState, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake()
			states <- conn.(*tls.Conn).ConnectionState()
		}
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), token.ClientTLS())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	key, dir := newKey(t), filepath.Join(t.TempDir(), "member")
	request, err := token.Request(conn.ConnectionState(), key, string(key.ID()))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Admit(<-states, request)
	if err != nil {
		t.Fatal(err)
	}
	admission, err := token.Accept(reply, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := admission.Save(dir); err != nil {
		t.Fatal(err)
	}
	id, err := identity.OpenMember(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// lanAddress returns an address of this machine that is not of loopback.
func lanAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return net.JoinHostPort(n.IP.String(), "0")
		}
	}
	t.Skip("this machine is in no network")
	return ""
}

func TestLANNeedsTokenOrCertificateOfRole(t *testing.T) {
	home, addr := newCluster(t), lanAddress(t)
	b := start(t, &control{}, func(c *dashboard.Config) { c.Identity, c.Listen = home.seed, addr })
	reply, err := b.Open(t.Context(), &symbiov1.DashboardRequest{Lan: true})
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(reply.GetUrl())
	b.origin = u.Scheme + "://" + u.Host
	if u.Scheme != "https" {
		t.Fatalf("the address is %s", b.origin)
	}
	removed := home.node(t, "dashboard")
	if err := home.Remove(removed.ID()); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name string
		with *identity.Identity
		want int // 0 = no connection
	}{
		{"no certificate", nil, http.StatusUnauthorized}, {"another node", home.node(t, "worker"), http.StatusUnauthorized}, {"role dashboard", home.node(t, "dashboard"), http.StatusOK},
		{"a removed node", removed, 0}, {"another cluster", newCluster(t).node(t, "dashboard"), 0},
	} {
		config := &tls.Config{InsecureSkipVerify: true}
		if one.with != nil {
			get := one.with.ClientTLS("").GetClientCertificate
			config.GetClientCertificate = get
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		answer, err := client.Get(b.origin + "/")
		if err != nil {
			if one.want != 0 {
				t.Errorf("%s: %v", one.name, err)
			}
			continue
		}
		answer.Body.Close()
		cookie := answer.Header.Get("Set-Cookie")
		if answer.StatusCode != one.want || one.want == http.StatusOK && !strings.Contains(cookie, "Secure") {
			t.Errorf("%s: %d, want %d; cookie %q", one.name, answer.StatusCode, one.want, cookie)
		}
	}
	if code, page := b.get(reply.GetUrl()); code != http.StatusOK || title(page) != "Welcome" {
		t.Errorf("with the token: %d %s", code, title(page))
	}
	if code, page := b.get("/"); code != http.StatusOK || title(page) != "Community" {
		t.Errorf("after the token: %d %s", code, title(page))
	}
}

func TestSessionEndsWithTheRoleThatGaveIt(t *testing.T) {
	home, addr := newCluster(t), lanAddress(t)
	c := &control{all: family(), changes: make(chan *symbiov1.FleetChange, 1)}
	b := start(t, c, func(c *dashboard.Config) { c.Identity, c.Listen = home.seed, addr })
	reply, err := b.Open(t.Context(), &symbiov1.DashboardRequest{Lan: true})
	if err != nil {
		t.Fatal(err)
	}
	origin, _, _ := strings.Cut(reply.GetUrl(), "/login")
	id := home.node(t, "dashboard")
	jar, _ := cookiejar.New(nil)
	config := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: id.ClientTLS("").GetClientCertificate}
	client := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	get := func(accept string, want int) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("accept %s: %d, want %d", accept, answer.StatusCode, want)
		}
		return answer
	}
	get("text/html", http.StatusOK).Body.Close()
	stream := get("text/event-stream", http.StatusOK)
	defer stream.Body.Close()
	if err := home.Ledger().Assign(id.ID(), "worker", nil); err != nil {
		t.Fatal(err)
	}
	get("text/html", http.StatusUnauthorized).Body.Close()
	c.changes <- &symbiov1.FleetChange{RemovedNodes: []string{"n1"}}
	if rest, err := io.ReadAll(stream.Body); err != nil || strings.Contains(string(rest), "0 machines") {
		t.Errorf("the stream shows what the role may not see, or does not end: %v", err)
	}
}

package dashboard_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/llm"
	"symbio/internal/agent/node/dashboard"
	"symbio/internal/security/audit"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/permission"
)

// control is the control API of a node without a node. Methods that it does not have panic.
type control struct {
	symbiov1.ControlClient
	changes   chan *symbiov1.FleetChange // after all, for streams
	approvals []*symbiov1.Approval
	said      string // in the conversation of each agent

	mu    sync.Mutex
	all   *symbiov1.FleetChange // guarded by mu
	calls []any                 // guarded by mu: the requests that change something
}

func (c *control) called(r any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, r)
}

// requests returns the requests that changed something.
func (c *control) requests() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *control) WatchFleet(ctx context.Context, r *symbiov1.FleetRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[symbiov1.FleetChange], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &fleetStream{ctx: ctx, first: c.all, changes: c.changes, once: r.GetOnce()}, nil
}

func (c *control) Answer(_ context.Context, r *symbiov1.AnswerRequest, _ ...grpc.CallOption) (*symbiov1.AnswerReply, error) {
	c.called(r)
	return &symbiov1.AnswerReply{}, nil
}

func (c *control) Terminate(_ context.Context, r *symbiov1.TerminateRequest, _ ...grpc.CallOption) (*symbiov1.LocatedMember, error) {
	c.called(r)
	return &symbiov1.LocatedMember{}, nil
}

func (c *control) Steer(_ context.Context, r *symbiov1.SteerRequest, _ ...grpc.CallOption) (*symbiov1.SteerReply, error) {
	c.called(r)
	if strings.Contains(r.GetText(), "late") {
		return &symbiov1.SteerReply{Outcome: "returned", Why: new("the task has ended")}, nil
	}
	return &symbiov1.SteerReply{Outcome: "delivered"}, nil
}

func (c *control) Approvals(context.Context, *symbiov1.ApprovalsRequest, ...grpc.CallOption) (*symbiov1.ApprovalsReply, error) {
	return &symbiov1.ApprovalsReply{Approvals: c.approvals}, nil
}

func (c *control) Conversation(context.Context, *symbiov1.ConversationRequest, ...grpc.CallOption) (*symbiov1.ConversationReply, error) {
	if c.said == "" {
		return nil, status.Error(codes.PermissionDenied, "authorize of desk does not name agents.state")
	}
	transcript, err := json.Marshal([]llm.Message{
		{Role: llm.User, Text: c.said}, {Role: llm.Assistant, Text: c.said, Calls: []llm.ToolCall{{ID: "1", Name: c.said, Args: []byte(`{"<script>":1}`)}}},
		{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: c.said, Text: c.said}}},
	})
	return &symbiov1.ConversationReply{Transcript: transcript}, err
}

// family is a node with an agent.
func family() *symbiov1.FleetChange {
	return &symbiov1.FleetChange{
		Nodes:  []*symbiov1.FleetNode{{Id: "n1", Name: "kitchen", Self: true, State: "self", Agents: 1}},
		Agents: []*symbiov1.FleetAgent{{Id: "a1", Name: "bob", Node: "n1", NodeName: "kitchen", State: "working", Task: "cook"}},
	}
}

type fleetStream struct {
	grpc.ClientStream
	ctx     context.Context
	first   *symbiov1.FleetChange
	changes chan *symbiov1.FleetChange
	once    bool
}

func (s *fleetStream) Recv() (*symbiov1.FleetChange, error) {
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	if s.once {
		return nil, io.EOF
	}
	select {
	case c := <-s.changes:
		return c, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// board is a dashboard that runs, and a browser for it.
type board struct {
	*dashboard.Dashboard
	t       *testing.T
	control *control
	client  *http.Client
	origin  string // of the address that login opened
	mu      sync.Mutex
	records []audit.Entry // guarded by mu
	broken  bool          // guarded by mu: records fail
}

// start runs a dashboard until the test ends.
func start(t *testing.T, c *control, change ...func(*dashboard.Config)) *board {
	t.Helper()
	if c.all == nil {
		c.all = &symbiov1.FleetChange{Nodes: []*symbiov1.FleetNode{{Id: "n1", Name: "kitchen", Self: true, State: "self"}}}
	}
	jar, _ := cookiejar.New(nil)
	b := &board{t: t, control: c, client: &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: dialLocalhost}}}
	cfg := dashboard.Config{Name: "kitchen", Identity: local(t), Listen: "127.0.0.1:7946", Client: c, Append: b.append, Rules: func(string) []permission.LocatedRule { return nil }, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if b.Dashboard, err = dashboard.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); b.client.CloseIdleConnections(); done.Wait() })
	return b
}

// dialLocalhost finds names below localhost on this machine, as browsers do.
func dialLocalhost(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, port, _ := net.SplitHostPort(addr); strings.HasSuffix(host, ".localhost") {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// local returns an identity outside of a cluster.
func local(t *testing.T) *identity.Identity {
	t.Helper()
	a, err := identity.OpenLocalAuthority(filepath.Join(t.TempDir(), "authority"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Issue(k)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *board) append(e audit.Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errors.New("the disk is full")
	}
	b.records = append(b.records, e)
	return nil
}

func (b *board) recorded() []audit.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records
}

// open returns an address with a new token.
func (b *board) open() string {
	b.t.Helper()
	r, err := b.Open(b.t.Context(), &symbiov1.DashboardRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	u, _ := url.Parse(r.GetUrl())
	b.origin = u.Scheme + "://" + u.Host
	return r.GetUrl()
}

// login opens the dashboard in the browser.
func (b *board) login() *board {
	b.t.Helper()
	if code, text := b.get(b.open()); code != http.StatusOK {
		b.t.Fatalf("login: %d %s", code, text)
	}
	return b
}

// do sends a request as the browser does, and returns the answer's code and text.
func (b *board) do(r *http.Request) (int, string) {
	b.t.Helper()
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// request makes a request to a path of the dashboard.
func (b *board) request(method, path, body string) *http.Request {
	b.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = b.origin + path
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (b *board) get(path string) (int, string) { return b.do(b.request(http.MethodGet, path, "")) }

// post sends a form as a page of the dashboard does.
func (b *board) post(path string, form url.Values) (int, string) {
	b.t.Helper()
	form.Set("form", b.form())
	r := b.request(http.MethodPost, path, form.Encode())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// form returns what the forms of the dashboard's pages have in this browser.
func (b *board) form() string {
	b.t.Helper()
	u, err := url.Parse(b.origin)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(u) {
		if form := b.FormOfSession(c.Value); form != "" {
			return form
		}
	}
	b.t.Fatal("the browser has no session")
	return ""
}

var titles = regexp.MustCompile(`<h1>(.*)</h1>`)

// title returns the heading of a page.
func title(page string) string {
	if m := titles.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return page
}

func TestLoginExchangesTokenForCookie(t *testing.T) {
	b := start(t, &control{})
	address := b.open()
	if code, page := b.get("/"); code != http.StatusUnauthorized || !strings.Contains(page, "symbio dashboard") {
		t.Errorf("without a session: %d %s", code, title(page))
	}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := b.client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	cookie := answer.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q has no %s", cookie, want)
		}
	}
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || strings.Contains(to, "token") {
		t.Errorf("login leads to %q with %d", to, answer.StatusCode)
	}
	if code, page := b.get("/"); code != http.StatusOK || title(page) != "Community" {
		t.Errorf("with a session: %d %s", code, title(page))
	}
}

func TestAgentIsSteered(t *testing.T) {
	c := &control{all: family()}
	b := start(t, c).login()
	code, page := b.get("/agents/a1")
	if code != http.StatusOK || title(page) != "bob" || !strings.Contains(page, "authorize of desk does not name agents.state") {
		t.Errorf("the page: %d %s", code, page)
	}
	if code, page = b.post("/agents/a1", url.Values{"action": {"steer"}, "text": {"be quick"}}); code != http.StatusOK || !strings.Contains(page, "The agent has your text") {
		t.Errorf("steered: %d %s", code, page)
	}
	if code, page = b.post("/agents/a1", url.Values{"action": {"steer"}, "text": {"too late"}}); code != http.StatusServiceUnavailable || !strings.Contains(page, "the task has ended") {
		t.Errorf("returned: %d %s", code, page)
	}
	if code, page = b.get("/agents/a2"); code != http.StatusNotFound {
		t.Errorf("an agent that does not exist: %d %s", code, title(page))
	}
	if code, page = b.post("/agents/a1", url.Values{"action": {"dance"}}); code != http.StatusBadRequest {
		t.Errorf("an action that does not exist: %d %s", code, title(page))
	}
}

func TestCommunityShowsTreesOverMachines(t *testing.T) {
	all := family()
	all.Nodes = append(all.Nodes, &symbiov1.FleetNode{Id: "n2", Name: "desk", State: "connected", Agents: 1}, &symbiov1.FleetNode{Id: "n3", Name: "attic", State: "connected", Withheld: new("authorize of attic does not name fleet.view")})
	all.Agents = append(all.Agents,
		&symbiov1.FleetAgent{Id: "a2", Name: "child", Node: "n1", Parent: "a1", State: "idle"}, &symbiov1.FleetAgent{Id: "a3", Name: "far", Node: "n2", Parent: "a1", State: "idle"},
		&symbiov1.FleetAgent{Id: "x", Name: "x", Node: "n2", Parent: "y"}, &symbiov1.FleetAgent{Id: "y", Name: "y", Node: "n2", Parent: "x"}) // a circle, which no honest node sends
	_, page := start(t, &control{all: all}).login().get("/")
	for _, want := range []string{`id="agent-a2" class="agent d1"`, `id="agent-a3" class="agent d0"`, "for bob on kitchen", "authorize of attic does not name fleet.view"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

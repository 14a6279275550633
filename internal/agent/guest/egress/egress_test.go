package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"symbio/internal/agent/guest/egress"
)

// rig is a proxy in a bubble, whose servers repeat their input.
type rig struct {
	t    *testing.T
	l    *bufconn.Listener
	stop func()

	mu     sync.Mutex
	dialed []string
	logged []egress.Connection
}

func newRig(t *testing.T, hosts ...string) *rig {
	r := &rig{t: t, l: bufconn.Listen(64 << 10)}
	p, err := egress.New(egress.Config{Hosts: hosts, Dial: r.dial, Log: func(c egress.Connection) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logged = append(r.logged, c)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Serve(ctx, r.l) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return r
}

// dial connects to a server that repeats its input.
func (r *rig) dial(_ context.Context, _, address string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dialed = append(r.dialed, address)
	client, server := net.Pipe()
	go func() { io.Copy(server, server); server.Close() }()
	return client, nil
}

func (r *rig) connect() net.Conn {
	c, err := r.l.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// send sends a request, and returns the response's status and text. A connection that is made gets status 200 and is closed.
func (r *rig) send(request string) (status int, text string) {
	c := r.connect()
	defer c.Close()
	io.WriteString(c, request)
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, err.Error()
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		text = string(body)
	}
	return answer.StatusCode, text
}

func TestProxyConnectsToTheListedHostsOnly(t *testing.T) {
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	for name, c := range map[string]struct {
		request string
		status  int
		dialed  string
	}{
		"exact":              {connect("api.example.com:443"), 200, "api.example.com:443"},
		"case and dot":       {connect("API.Example.com.:443"), 200, "api.example.com:443"},
		"HTTP/1.0":           {"CONNECT api.example.com:443 HTTP/1.0\r\n\r\n", 200, "api.example.com:443"},
		"below":              {connect("a.b.example.org:443"), 200, "a.b.example.org:443"},
		"not the suffix":     {connect("example.org:443"), 403, ""},
		"not by letters":     {connect("evilexample.org:443"), 403, ""},
		"IDNA":               {connect("xn--bcher-kva.example:8443"), 200, "xn--bcher-kva.example:8443"},
		"IDNA by letters":    {connect("BÜCHER.example:8443"), 200, "xn--bcher-kva.example:8443"},
		"another port":       {connect("api.example.com:22"), 403, ""},
		"port of another":    {connect("xn--bcher-kva.example:443"), 403, ""},
		"address":            {connect("127.0.0.1:11434"), 200, "127.0.0.1:11434"},
		"mapped address":     {connect("[::ffff:127.0.0.1]:11434"), 200, "127.0.0.1:11434"},
		"another address":    {connect("127.0.0.1:22"), 403, ""},
		"metadata":           {connect("169.254.169.254:80"), 403, ""},
		"IPv6":               {connect("[::1]:443"), 403, ""},
		"zone":               {connect("[fe80::1%25eth0]:443"), 400, ""},
		"decimal address":    {connect("2130706433:11434"), 400, ""},
		"short address":      {connect("127.1:11434"), 400, ""},
		"hex address":        {connect("0x7f000001:11434"), 400, ""},
		"wide digits":        {connect("１２７.0.0.1:11434"), 400, ""},
		"another name":       {connect("example.com:443"), 403, ""},
		"name in front":      {connect("api.example.com.evil.example:443"), 403, ""},
		"localhost":          {connect("localhost:11434"), 403, ""},
		"no port":            {connect("api.example.com"), 400, ""},
		"port 0":             {connect("api.example.com:0"), 400, ""},
		"port 00443":         {connect("api.example.com:00443"), 400, ""},
		"port +443":          {connect("api.example.com:+443"), 400, ""},
		"large port":         {connect("api.example.com:65979"), 400, ""},
		"two ports":          {connect("api.example.com:443:443"), 400, ""},
		"service":            {connect("api.example.com:https"), 400, ""},
		"no name":            {connect(":443"), 400, ""},
		"user":               {connect("api.example.com@evil.example:443"), 400, ""},
		"user in front":      {connect("evil.example@api.example.com:443"), 400, ""},
		"path":               {connect("api.example.com/:443"), 400, ""},
		"URL":                {connect("https://api.example.com:443"), 400, ""},
		"percent":            {connect("api%2eexample.com:443"), 400, ""},
		"NUL":                {connect("api.example.com\x00.evil.example:443"), 400, ""},
		"blank":              {connect("api.example.com :443"), 400, ""},
		"host field":         {"CONNECT evil.example:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 403, ""},
		"other host field":   {"CONNECT api.example.com:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200, "api.example.com:443"},
		"two host fields":    {"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, ""},
		"absolute form":      {"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 405, ""},
		"origin form":        {"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 405, ""},
		"POST":               {"POST http://127.0.0.1:11434/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, ""},
		"lower case":         {"connect api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n", 405, ""},
		"HTTP/2":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 405, ""},
		"second request":     {"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\n\r\n" + connect("api.example.com:443"), 403, ""},
		"request in a body":  {"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n" + connect("api.example.com:443"), 403, ""},
		"chunked":            {"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + connect("api.example.com:443"), 403, ""},
		"length and chunked": {"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n", 501, ""},
		"folded field":       {"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\nX: y\r\n CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, ""},
		"large header":       {"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", 431, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "api.example.com", "*.Example.org.", "bücher.example:8443", "127.0.0.1:11434")
				status, text := r.send(c.request)
				synctest.Wait()
				if got := strings.Join(r.dialed, " "); status != c.status || got != c.dialed {
					t.Errorf("status %d (%q), dialed %q; want %d, %q", status, text, got, c.status, c.dialed)
				}
				r.stop()
				logs := map[int]int{200: 1, 403: 1, 405: 1}[status]
				if n := len(r.logged); n > 1 || n < logs {
					t.Errorf("logged %v", r.logged)
				}
				for _, l := range r.logged {
					if (l.Refused == "") != (status == 200) {
						t.Errorf("status %d is logged as %+v", status, l)
					}
				}
			})
		})
	}
}

func TestRefusalSaysHowToAllowTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, text := r.send("CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
		want := "evil.example:443 is not among the hosts that this agent may reach. A person allows it under acp: hosts: in the agent's definition."
		if strings.TrimSpace(text) != want {
			t.Errorf("got %q, want %q", text, want)
		}
		r.stop()
	})
}

func TestHostsThatAreNotValidAreNamed(t *testing.T) {
	for _, host := range []string{"", "*", "*.", "127.0.0.1", "::1", "[::1]", "*.1.2.3.4:80", "https://a.example", "a.example/b", "a.example:", "a.example:0", "a b", "*a.example", "0x7f.1:80"} {
		if _, err := egress.New(egress.Config{Hosts: []string{host}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", host)) {
			t.Errorf("%q: %v, want an error that names it", host, err)
		}
	}
	p, err := egress.New(egress.Config{Hosts: []string{"a.example", "127.0.0.1:80", "[::1]:81", "192.168.1.2:82", "127.0.0.1:11434"}})
	if err != nil || !slices.Equal(p.Loopback(), []uint16{80, 11434}) {
		t.Errorf("%v, %v", p.Loopback(), err)
	}
}

// tunnel connects through the proxy, and returns the connection behind the response.
func (r *rig) tunnel(early string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c := r.connect()
	io.WriteString(c, "CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n"+early)
	from := bufio.NewReader(c)
	if answer, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect}); err != nil || answer.StatusCode != http.StatusOK {
		r.t.Fatal(answer, err)
	}
	return c, from
}

// The bytes after the request belong to the server, even if they look like another request.
func TestBytesOfConnectionAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "api.example.com")
		next := "CONNECT evil.example:443 HTTP/1.1\r\n\r\n"
		c, from := r.tunnel(next)
		io.WriteString(c, "more")
		got := make([]byte, len(next)+4)
		if _, err := io.ReadFull(from, got); err != nil || string(got) != next+"more" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
		r.stop()
		want := egress.Connection{Host: "api.example.com:443", Sent: int64(len(got)), Received: int64(len(got))}
		if len(r.dialed) != 1 || len(r.logged) != 1 || r.logged[0] != want {
			t.Errorf("dialed %q, logged %+v, want %+v", r.dialed, r.logged, want)
		}
	})
}

func TestConnectionEndsWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "api.example.com")
		c, from := r.tunnel("")
		for range 3 {
			time.Sleep(9 * time.Minute)
			io.WriteString(c, "x")
			if _, err := from.ReadByte(); err != nil {
				t.Fatal("it ended although there was traffic:", err)
			}
		}
		begun := time.Now()
		if _, err := from.ReadByte(); err == nil || time.Since(begun) != 10*time.Minute {
			t.Errorf("it ended after %v: %v", time.Since(begun), err)
		}
		r.stop()
	})
}

func TestSilentClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "api.example.com")
		c, begun := r.connect(), time.Now()
		io.WriteString(c, "CONNECT api")
		io.ReadAll(c)
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("it ended after %v", took)
		}
		r.stop()
	})
}

func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "api.example.com")
		var open []net.Conn
		for range 64 {
			c, _ := r.tunnel("")
			open = append(open, c)
		}
		last := make(chan int)
		go func() {
			status, _ := r.send("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
			last <- status
		}()
		synctest.Wait()
		if n := len(r.dialed); n != 64 {
			t.Errorf("%d connections", n)
		}
		open[0].Close()
		if status := <-last; status != 200 {
			t.Errorf("the connection after the end of another has status %d", status)
		}
		r.stop()
		if n := len(r.logged); n != 65 {
			t.Errorf("%d connections are logged", n)
		}
	})
}

// A name of the list may resolve to any address: only public ones are dialled, and none that stands for a name of the list.
func TestNameAtPrivateAddressIsNotReached(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "reached")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	for target, want := range map[string]string{
		"localhost:" + port:  "403 localhost:" + port + " is not reached, because it is at no public address.\n",
		"127.0.0.1:" + port:  "200 reached",
		"localhost.:" + port: "403 localhost:" + port + " is not reached, because it is at no public address.\n",
	} {
		t.Run(target, func(t *testing.T) {
			var logged []egress.Connection
			p, err := egress.New(egress.Config{Hosts: []string{"localhost:" + port, "127.0.0.1:" + port}, Log: func(c egress.Connection) { logged = append(logged, c) }})
			if err != nil {
				t.Fatal(err)
			}
			l := bufconn.Listen(1 << 10)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- p.Serve(ctx, l) }()
			c, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", target)
			from := bufio.NewReader(c)
			answer, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			rest := io.Reader(answer.Body)
			if answer.StatusCode == http.StatusOK {
				rest = from
			}
			text, _ := io.ReadAll(rest)
			if got := fmt.Sprint(answer.StatusCode, " ", string(text)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if len(logged) != 1 || (logged[0].Refused == "") != (answer.StatusCode == http.StatusOK) {
				t.Errorf("logged %+v", logged)
			}
		})
	}
}

// FuzzRequest: whatever a client sends, only hosts of the list are dialled, and each connection is logged at most once.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{
		"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", "CONNECT a.example.org.:443 HTTP/1.0\r\nHost: x\r\n\r\nabc", "GET http://api.example.com/ HTTP/1.1\r\n\r\n",
		"CONNECT [::1]:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", "CONNECT a@b:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "CONNECT 127.0.0.1:80 HTTP/1.1\n\n",
	} {
		f.Add(request)
	}
	f.Fuzz(func(t *testing.T, request string) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "api.example.com", "*.example.org", "127.0.0.1:80")
			c := r.connect()
			io.WriteString(c, request)
			synctest.Wait()
			c.Close()
			r.stop()
			for _, address := range r.dialed {
				name, below := strings.CutSuffix(address, ".example.org:443")
				if address != "api.example.com:443" && address != "127.0.0.1:80" && (!below || name == "") {
					t.Errorf("%q: dialed %q", request, address)
				}
			}
			if len(r.dialed) > 1 || len(r.logged) > 1 {
				t.Errorf("%q: dialed %q, logged %+v", request, r.dialed, r.logged)
			}
		})
	})
}

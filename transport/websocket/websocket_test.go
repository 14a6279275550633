package websocket_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"symbio/transport/grpcpeer/grpcpeertest"
	"symbio/transport/websocket"
)

// lan is a Listener in memory, behind which a proxy may be.
type lan struct {
	*websocket.Listener
	tcp *grpcpeertest.Listener
}

func listen(t *testing.T) *lan {
	t.Helper()
	tcp := grpcpeertest.NewListener(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	l := &lan{websocket.NewListener(websocket.Config{Listener: tcp, Path: "/symbio"}), tcp}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// dial opens a WebSocket and returns both ends.
func (l *lan) dial(t *testing.T) (near, far net.Conn) {
	t.Helper()
	d := websocket.Dialer{DialTCP: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.tcp.Dial(ctx) }}
	near, err := d.Dial(t.Context(), "ws://kitchen.example/symbio")
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// request sends text as it is and returns the connection.
func (l *lan) request(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := l.tcp.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

const upgrade = "GET /symbio HTTP/1.1\r\nHost: kitchen.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"

func status(t *testing.T, c net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// bubble runs a test in a bubble of package synctest.
func bubble(t *testing.T, f func(t *testing.T, l *lan)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, listen(t))
		time.Sleep(time.Second) // after some refusals the HTTP server waits half a second
	})
}

func TestConnCarriesBytesInBothDirections(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		near, far := l.dial(t)
		for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
			sent := make([]byte, 300_000)
			_, _ = rand.Read(sent)
			go func() {
				for part := range 3 { // messages have borders, and bytes have none
					if _, err := ends[0].Write(sent[part*100_000 : (part+1)*100_000]); err != nil {
						t.Error(err)
					}
				}
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("read %v, and the bytes are those that were sent: %v", err, bytes.Equal(got, sent))
			}
		}
		if near.RemoteAddr().String() != "ws://kitchen.example/symbio" || far.RemoteAddr().String() != "pipe" {
			t.Errorf("the ends are at %s and %s", near.RemoteAddr(), far.RemoteAddr())
		}
		for _, c := range []net.Conn{near, far} {
			if _, ok := c.LocalAddr().(websocket.Addr); !ok {
				t.Errorf("the local address is %v, want one that nobody dials", c.LocalAddr())
			}
		}
	})
}

func TestConnKeepsDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		near, far := l.dial(t)
		for _, c := range []net.Conn{near, far} {
			begun := time.Now()
			if err := c.SetReadDeadline(begun.Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 5*time.Second {
				t.Errorf("read ended after %v with %v", time.Since(begun), err)
			}
		}
	})
}

// A connection whose other side does not read closes at once: nothing waits for a closing handshake.
func TestConnClosesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		near, far := l.dial(t)
		for _, c := range []net.Conn{near, far} {
			written := make(chan error, 1)
			go func() {
				_, err := c.Write(make([]byte, 1<<20)) // more than the pipe holds
				written <- err
			}()
			synctest.Wait()
			begun := time.Now()
			_ = c.Close()
			if err := <-written; err == nil || time.Since(begun) != 0 {
				t.Errorf("the write ended %v after Close with %v", time.Since(begun), err)
			}
		}
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Error("a closed connection is read")
		}
	})
}

func TestOnlyWebSocketsAreAccepted(t *testing.T) {
	for name, x := range map[string]struct {
		request string
		want    int
	}{
		"no upgrade":          {"GET /symbio HTTP/1.1\r\nHost: a\r\n\r\n", http.StatusUpgradeRequired},
		"another path":        {strings.Replace(upgrade, "/symbio", "/", 1) + "\r\n", http.StatusNotFound},
		"another method":      {strings.Replace(upgrade, "GET", "PUT", 1) + "\r\n", http.StatusMethodNotAllowed},
		"page of a site":      {upgrade + "Origin: https://evil.example\r\n\r\n", http.StatusForbidden},
		"no key":              {strings.Replace(upgrade, "Key", "Kex", 1) + "\r\n", http.StatusBadRequest},
		"large header":        {upgrade + "X: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"not HTTP":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", http.StatusBadRequest},
		"another of the same": {upgrade + "\r\n", http.StatusSwitchingProtocols},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lan) {
				accepted := make(chan net.Conn, 1)
				go func() {
					if c, err := l.Accept(); err == nil {
						accepted <- c
					}
				}()
				go func() { // the pipe is shorter than a large header
					c, err := l.tcp.Dial(context.WithoutCancel(t.Context()))
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					go io.WriteString(c, x.request)
					if got := status(t, c); got != x.want {
						t.Errorf("answered %d, want %d", got, x.want)
					}
				}()
				synctest.Wait()
				select {
				case c := <-accepted:
					c.Close()
					if x.want != http.StatusSwitchingProtocols {
						t.Error("it was accepted")
					}
				default:
					if x.want == http.StatusSwitchingProtocols {
						t.Error("it was not accepted")
					}
				}
			})
		})
	}
}

// A connection that does not send its request has 5 s, as one that does not prove itself over TCP.
func TestSlowRequestIsClosed(t *testing.T) {
	for _, text := range []string{"GET /sym", upgrade, upgrade + "Content-Length: 9\r\n\r\n"[:20]} {
		bubble(t, func(t *testing.T, l *lan) {
			begun := time.Now()
			c := l.request(t, text)
			_, _ = io.Copy(io.Discard, c)
			if took := time.Since(begun); took < 4*time.Second || took > 6*time.Second {
				t.Errorf("%q was closed after %v, want 5s", text, took)
			}
		})
	}
}

func TestRequestsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		for range 64 {
			l.request(t, "GET /symbio")
		}
		synctest.Wait()
		begun := time.Now()
		over, err := l.tcp.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer over.Close()
		if _, err := over.Read(make([]byte, 1)); err == nil || time.Since(begun) != 0 {
			t.Errorf("the 65th was closed after %v with %v, want at once", time.Since(begun), err)
		}
		time.Sleep(6 * time.Second) // in the bubble: the slow ones have been closed
		for range 100 {             // WebSockets are not counted here
			l.dial(t)
		}
	})
}

// frame is a WebSocket frame of a client, masked with zeros.
func frame(opcode byte, length uint64, payload string) string {
	b := binary.BigEndian.AppendUint64([]byte{0x80 | opcode, 0x80 | 127}, length)
	return string(append(b, 0, 0, 0, 0)) + payload
}

// hostile opens a WebSocket by hand, sends text over it, and returns what Read returns.
func (l *lan) hostile(t *testing.T, text string) ([]byte, net.Conn, error) {
	t.Helper()
	c := l.request(t, upgrade+"\r\n")
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	if got := status(t, c); got != http.StatusSwitchingProtocols {
		t.Fatal(got)
	}
	go io.WriteString(c, text)
	buf := make([]byte, 5)
	if err := far.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := far.Read(buf)
	return buf[:n], far, err
}

func TestHostileFramesAreRefused(t *testing.T) {
	for name, x := range map[string]struct{ text, want string }{
		"text":              {frame(1, 5, "hello"), "a MessageText came over the WebSocket"},
		"not masked":        {"\x82\x05hello", "unmasked"},
		"unknown opcode":    {frame(3, 5, "hello"), "unknown opcode"},
		"compressed":        {"\xc2\x80\x00\x00\x00\x00", "rsv"},
		"long ping":         {frame(9, 4096, strings.Repeat("x", 4096)), "invalid length"},
		"continuation":      {frame(0, 5, "hello"), "continuation"},
		"half a header":     {"\x82", os.ErrDeadlineExceeded.Error()},
		"half a frame":      {frame(2, 5, ""), os.ErrDeadlineExceeded.Error()},
		"empty, then close": {frame(2, 0, "") + frame(8, 0, ""), "EOF"},
		"negative length":   {frame(2, 1<<63, "hello"), "length"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *lan) {
				if got, _, err := l.hostile(t, x.text); err == nil || !strings.Contains(err.Error(), x.want) {
					t.Errorf("read %q, %v, want an error with %q", got, err, x.want)
				}
			})
		})
	}
}

// A message that claims to be long is not waited for, nor is memory set aside for it.
func TestHugeMessageIsReadAsItComes(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		got, far, err := l.hostile(t, frame(2, 1<<62, "hello"))
		if err != nil || string(got) != "hello" {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the rest of it: %v", err)
		}
	})
}

// Of a long message on a slow network, what has come is read: who reads nothing for long gives the connection up.
func TestSlowMessageIsReadInPieces(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		c := l.request(t, upgrade+"\r\n")
		behind, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer behind.Close()
		if got := status(t, c); got != http.StatusSwitchingProtocols {
			t.Fatal(got)
		}
		go io.WriteString(c, frame(2, 64<<10, strings.Repeat("x", 4<<10)))
		if n, err := behind.Read(make([]byte, 64<<10)); err != nil || n != 4<<10 {
			t.Errorf("read %d bytes, %v of a message of which 4 KiB have come", n, err)
		}
	})
}

func TestEmptyMessagesEndAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, l *lan) {
		begun := time.Now()
		_, _, err := l.hostile(t, strings.Repeat(frame(2, 0, ""), 100_000))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) > 6*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// A proxy of this machine says who asks; others could say anything.
func TestForwardedAddressCountsFromThisMachineOnly(t *testing.T) {
	for _, x := range []struct{ from, header, want string }{
		{"127.0.0.1:7", "X-Forwarded-For: 6.6.6.6, 10.0.0.7\r\n", "10.0.0.7"},
		{"127.0.0.1:7", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: fd00::7\r\n", "fd00::7"},
		{"[::1]:7", "X-Forwarded-For: ::ffff:10.0.0.7\r\n", "10.0.0.7"},
		{"127.0.0.1:7", "X-Forwarded-For: unknown\r\n", "127.0.0.1:7"},
		{"127.0.0.1:7", "", "127.0.0.1:7"},
		{"10.0.0.9:7", "X-Forwarded-For: 10.0.0.7\r\n", "10.0.0.9:7"},
	} {
		bubble(t, func(t *testing.T, l *lan) {
			l.tcp.Close()
			from := net.TCPAddr{}
			tcp, err := net.ResolveTCPAddr("tcp", x.from)
			if err != nil {
				t.Fatal(err)
			}
			from = *tcp
			one := oneConn{conns: make(chan net.Conn, 1), done: make(chan struct{})}
			web := websocket.NewListener(websocket.Config{Listener: one, Path: "/symbio"})
			near, far := grpcpeertest.Pipe(&from, &from)
			defer near.Close()
			one.conns <- far
			go io.WriteString(near, upgrade+x.header+"\r\n")
			c, err := web.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if got := c.RemoteAddr().String(); got != x.want {
				t.Errorf("%s with %q is %s, want %s", x.from, x.header, got, x.want)
			}
			c.Close()
			web.Close()
		})
	}
}

// oneConn is a listener of the connections that a test puts into it.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (o oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.done:
		return nil, net.ErrClosed
	}
}
func (o oneConn) Close() error   { close(o.done); return nil }
func (o oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestDialSaysWhatAnswers(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusOK:                "no node accepts WebSockets there; compare the path",
		http.StatusNotFound:          "HTTP 404 Not Found: no node accepts",
		http.StatusMovedPermanently:  "HTTP 301 Moved Permanently: no node accepts",
		http.StatusUpgradeRequired:   "does not pass on the headers Upgrade and Connection; set both",
		http.StatusProxyAuthRequired: "wants a password; write it into HTTPS_PROXY",
		http.StatusBadGateway:        "does not reach the node behind it; start that node",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		}))
		_, err := websocket.Dialer{}.Dial(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"))
		var op *net.OpError
		if err == nil || !errors.As(err, &op) || !strings.Contains(err.Error(), want) {
			t.Errorf("an answer %d: %v, want %q", code, err, want)
		}
		server.Close()
	}
}

func TestDialVerifiesTheProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	url := "wss" + strings.TrimPrefix(server.URL, "https")
	if _, err := (websocket.Dialer{}).Dial(t.Context(), url); err == nil || !strings.Contains(err.Error(), "unknown authority; name the file of its authority with the key discovery.roots") {
		t.Errorf("a proxy of an unknown authority: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if _, err := (websocket.Dialer{Roots: roots}).Dial(t.Context(), url); err == nil || !strings.Contains(err.Error(), "HTTP 404") {
		t.Errorf("a proxy whose authority is known: %v", err)
	}
	server.Close()
	if _, err := (websocket.Dialer{}).Dial(t.Context(), url); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a proxy that does not run: %v", err)
	}
}

// What never answers ends with the context, and leaves nothing behind.
func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		near, far := grpcpeertest.Pipe(websocket.Addr("a"), websocket.Addr("b"))
		defer far.Close()
		d := websocket.Dialer{DialTCP: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
		begun := time.Now()
		if _, err := d.Dial(ctx, "ws://kitchen.example/"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if _, err := io.Copy(io.Discard, far); err != nil {
			t.Error(err)
		}
		if _, err := far.Write([]byte("x")); err == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestClosedListenerAcceptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tcp := grpcpeertest.NewListener(&net.TCPAddr{})
		l := websocket.NewListener(websocket.Config{Listener: tcp})
		if l.Addr() != tcp.Addr() {
			t.Errorf("it is at %s", l.Addr())
		}
		d := websocket.Dialer{DialTCP: func(ctx context.Context, _, _ string) (net.Conn, error) { return tcp.Dial(ctx) }}
		c, err := d.Dial(t.Context(), "ws://kitchen.example") // open, and accepted by nobody yet
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the WebSocket that nobody accepted is open")
		}
		if _, err := d.Dial(t.Context(), "ws://kitchen.example"); err == nil {
			t.Error("it is dialed after Close")
		}
	})
}

func ExampleDialer() {
	_, err := websocket.Dialer{}.Dial(context.Background(), "ws://127.0.0.1:1/symbio")
	fmt.Println(err)
	// Output: dial tcp 127.0.0.1:1: connect: connection refused
}

// The environment names a forward proxy, which is asked for a connection to the other proxy. A process reads it once, so
// the test runs itself in another one.
func TestDialGoesThroughForwardProxy(t *testing.T) {
	const proxy = "proxy.example:3128"
	if os.Getenv("HTTPS_PROXY") != "http://user:secret@"+proxy {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "HTTPS_PROXY=http://user:secret@"+proxy, "NO_PROXY=")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	// Behind the forward proxy, a proxy that ends TLS for example.com, and the node behind that.
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := websocket.NewListener(websocket.Config{Listener: tcp, Path: "/symbio"})
	defer node.Close()
	far, err := url.Parse("http://" + tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(far))
	defer server.Close()
	forward := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:443" || r.Header.Get("Proxy-Authorization") == "" {
			t.Errorf("the forward proxy is asked for %s %s with %v", r.Method, r.Host, r.Header)
		}
		out, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		in, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(out, buffered)
		_, _ = io.Copy(in, out)
	}))
	defer forward.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := websocket.Dialer{Roots: roots, DialTCP: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != proxy {
			t.Errorf("%s is dialed, past the forward proxy", addr)
		}
		return new(net.Dialer).DialContext(ctx, network, forward.Listener.Addr().String())
	}}
	near, err := d.Dial(t.Context(), "wss://example.com/symbio")
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	other, err := node.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go io.WriteString(near, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(other, got); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
	"symbio/internal/agent/tool/mcp/packages"
	"symbio/security/sandbox"
)

const (
	// maxMessage limits one message of a server, pictures included.
	maxMessage = 16 << 20
	// maxStderr is how much of a program's standard error is kept, half from its start and half
	// from its end: enough to see why it does not start.
	maxStderr = 8 << 10
	// maxQuoted is how much of a server's words an error quotes.
	maxQuoted = 2 << 10
	// exitTimeout is how long a program may take to exit after its standard input was closed. Then
	// it is killed.
	exitTimeout = 2 * time.Second
	// maxOutput is how much a program may print in its life before it is killed. Normal use for
	// weeks stays below it.
	maxOutput = 1 << 40
)

// Box is the sandbox that a server's program runs in.
type Box struct {
	// Box starts the program.
	Box *sandbox.Box
	// Policy is what the program may do. start adds the entry's variables and the program's files.
	Policy sandbox.Policy
	// Dir is the program's working directory, unless its entry has one.
	Dir string
}

// link is an open connection to a server that has not spoken yet.
type link struct {
	// transport is what the SDK connects to. It is used for one session.
	transport sdk.Transport
	// stderr returns what the program has written to standard error so far, in a printable form.
	// nil means that there is no program.
	stderr func() string
	// hint is a possible reason why the program does not start, for an error message; "" if there
	// is none.
	hint string
	// end closes the connection and waits until the program and all that it started have ended. It
	// may be called several times.
	end func()
}

// dial opens a connection to a server. It ends with ctx. HTTP redirects are refused, because the
// entry's headers may hold keys and the person trusted this URL only. For HTTP and SSE it sends
// nothing yet, so an unreachable server is an error of the handshake.
func (m *Manager) dial(ctx context.Context, s Server) (*link, error) {
	if s.Type == Stdio {
		return m.start(ctx, s)
	}
	if s.Type == SSE {
		return &link{transport: &sdk.SSEClientTransport{Endpoint: s.URL, HTTPClient: m.client(s), MaxEventSize: maxMessage}, end: func() {}}, nil
	}
	return &link{transport: m.streamable(s, storedLogin{m, s, new(sync.Mutex)}), end: func() {}}, nil
}

// client returns the HTTP client for a server.
func (m *Manager) client(s Server) *http.Client {
	u, err := url.Parse(s.URL)
	if err != nil {
		u = new(url.URL) // Server.check has parsed it; no request goes to an empty host
	}
	return &http.Client{
		Transport: &originTransport{to: u, headers: s.Headers, base: m.cfg.HTTP},
		// A redirect could send the headers to another path that the person has not seen.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server sends elsewhere; write the url that it names, if you trust that")
		},
	}
}

// start runs a server's program in the sandbox and connects to its standard input and output. Its
// standard error goes to a tail. It returns an error if there is no sandbox for it or the program
// cannot be started. The program ends with ctx or with link.end.
func (m *Manager) start(ctx context.Context, s Server) (*link, error) {
	box, err := m.cfg.Box(s)
	if err != nil {
		return nil, err
	}
	argv := s.Argv
	if argv == nil {
		argv = append([]string{s.Command}, s.Args...)
	}
	spec := sandbox.Spec{Argv: argv, Dir: cmp.Or(s.Dir, box.Dir), Keep: maxStderr, Flood: maxOutput}
	policy := box.Policy
	for name, value := range s.Env {
		spec.Env = append(spec.Env, name+"="+value)
		// The sandbox passes on only the variables that its policy names.
		policy.Env = append(slices.Clip(policy.Env), name)
	}
	// Clip makes append copy the slice: Box may return the same policy for every server.
	policy.Files.Read = append(slices.Clip(policy.Files.Read), s.visiblePaths()...)
	hint := ""
	if policy.Network != sandbox.NetworkFull {
		hint = s.hint()
		if p, _, _ := packages.Parse(s.Command, s.Args); p.Manager != "" && s.Argv == nil {
			// It fails at once, not after it has tried to reach the registry for half a minute.
			spec.Env = append(spec.Env, "npm_config_offline=true", "UV_OFFLINE=1")
			policy.Env = append(policy.Env, "npm_config_offline", "UV_OFFLINE")
		}
	}
	// Standard error is kept for error messages; the protocol uses standard output alone.
	said := &tail{}
	dropped := func(line []byte) {
		m.cfg.Logger.Debug("mcp server printed a line that is no message", "server", s.Name, "line", oneLine(string(line[:min(len(line), maxWord)])))
	}
	spec.Stderr = said
	p, err := box.Box.Start(ctx, policy, spec)
	if err != nil {
		return nil, err
	}
	// connect calls end before it reads standard error, and again when it returns.
	end := sync.OnceFunc(func() { p.Close(exitTimeout) })
	return &link{
		transport: &sdk.IOTransport{Reader: &messageReader{r: bufio.NewReaderSize(p.Stdout, 64<<10), c: p.Stdout, dropped: dropped},
			Writer: p.Stdin, MaxLineLength: maxMessage},
		stderr: said.String, hint: hint, end: end,
	}, nil
}

// hint returns why a program may fail that has not the machine's network, and what to do, for the end of an error.
func (s Server) hint() string {
	p, _, err := packages.Parse(s.Command, s.Args)
	name, part := filepath.Base(s.Command), ServerPart(s.Name)
	switch {
	case err != nil:
		return fmt.Sprintf("; %v, so that its package cannot be installed for it: install it yourself, and write its program as the command of its entry, %s:%d", err, s.File, s.Line)
	case p.Manager != "" && s.Argv == nil:
		return fmt.Sprintf("; %s downloads what it runs, and the sandbox gives it neither the network nor its cache: install %s once, with symbio mcp update %s", name, p.Name, part)
	case (name == "docker" || name == "podman") && len(s.Sandbox) == 0:
		return `; the sandbox keeps it from the socket of its service: if it may have that, which makes it root on this machine, write "sandbox": {"sockets": ["/var/run/docker.sock"]} into its entry in your own mcp.json, with the path of that socket`
	case s.Project:
		return "; the sandbox holds it without the machine's network: if it needs that, write sandbox: {network: full} into your configuration, or its entry with that into your own mcp.json"
	}
	return fmt.Sprintf("; the sandbox holds it without the machine's network: if it needs that, write \"sandbox\": {\"network\": \"full\"} into its entry, %s:%d", s.File, s.Line)
}

// visiblePaths returns the paths that the sandbox shows to the program beside the usual ones: the
// program itself, and the top directories below /tmp that the entry names. The program otherwise
// has a /tmp of its own. The whole top directory is shown, because few programs are a single file.
func (s Server) visiblePaths() []string {
	command := s.Command
	if strings.ContainsRune(command, filepath.Separator) && !filepath.IsAbs(command) {
		command = filepath.Join(s.Dir, command)
	}
	return sandbox.ProgramPaths(command, append([]string{s.Dir}, s.Args...)...)
}

// messageReader passes on the lines of a program's standard output that are messages. Others are dropped and logged, because some
// programs print a banner or their log there. A line longer than maxMessage is an error, before more of it is kept in memory.
type messageReader struct {
	// r reads the program's standard output.
	r *bufio.Reader
	// c closes the program's standard output.
	c io.Closer
	// dropped is called with the lines that are no messages.
	dropped func(line []byte)
	// rest is the part of a line that Read has not returned yet.
	rest []byte
}

// Read returns one line at most. It returns the error of the last line after that line.
func (l *messageReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if line = bytes.TrimSpace(line); isMessage(line) {
			l.rest = append(line, '\n')
		} else if len(line) > 0 {
			l.dropped(line)
		}
		if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// isMessage reports whether a line is a message of JSON-RPC, or several in a list.
func isMessage(line []byte) bool {
	var one struct {
		Version string `json:"jsonrpc"`
	}
	if bytes.HasPrefix(line, []byte("[")) {
		var all []json.RawMessage
		return json.Unmarshal(line, &all) == nil && len(all) > 0 && all[0][0] == '{' && isMessage(all[0])
	}
	return bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &one) == nil && one.Version != ""
}

// line returns the next line, with its end, and at the end of the file io.EOF with the last one. It
// returns an error if the line is too long, without reading the rest of it.
func (l *messageReader) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(whole)+len(part) > maxMessage {
			return nil, fmt.Errorf("a message of the server is longer than %d MiB", maxMessage>>20)
		}
		whole = append(whole, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return whole, err
		}
	}
}

func (l *messageReader) Close() error { return l.c.Close() }

// tail is a Writer that keeps the beginning and the end of the text written to it. It may be used by
// many goroutines.
type tail struct {
	mu sync.Mutex
	// head is the beginning, last the end of the text, each at most half of maxStderr; guarded by
	// mu.
	head, last []byte
	// cut is true if something between them was dropped; guarded by mu.
	cut bool
}

// Write never fails, so that a program does not block on its standard error.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), maxStderr/2-len(t.head))
	t.head = append(t.head, p[:n]...)
	if t.last = append(t.last, p[n:]...); len(t.last) > maxStderr/2 {
		t.last = append([]byte(nil), t.last[len(t.last)-maxStderr/2:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the text in a printable form, with a mark where something was dropped.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := ""
	if t.cut {
		between = "\n[…]\n"
	}
	return strings.TrimSpace(tool.Readable([]byte(string(t.head) + between + string(t.last))))
}

// originTransport sends requests to one server only, so that the headers of its entry, which may
// hold keys, go nowhere else. It limits responses that are not event streams; the SDK's transport
// limits the events of a stream.
type originTransport struct {
	// to is the URL of the entry. Its scheme and host are the only ones that are allowed.
	to *url.URL
	// headers come from the entry. They replace headers of the SDK with the same name.
	headers map[string]string
	// base sends the requests; nil means http.DefaultTransport.
	base http.RoundTripper
}

// RoundTrip refuses requests to another scheme or host: a server of the type SSE names the URL for
// messages itself.
func (o *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != o.to.Scheme || r.URL.Host != o.to.Host {
		return nil, fmt.Errorf("the server sends to %s, which is another than %s: refused", r.URL.Host, o.to.Host)
	}
	ctx := r.Context()
	// The SDK sends DELETE at the end of a session. It must not hold up the end of the node.
	if r.Method == http.MethodDelete {
		short, cancel := context.WithTimeout(ctx, exitTimeout)
		defer cancel()
		ctx = short
	}
	r = r.Clone(ctx)
	for name, value := range o.headers {
		r.Header.Set(name, value)
	}
	resp, err := cmp.Or(o.base, http.DefaultTransport).RoundTrip(r)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, err
}

// limitedBody is a response body that returns an error after left bytes.
type limitedBody struct {
	io.ReadCloser
	// left is the number of bytes that may still be read.
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("an answer of the server is longer than %d MiB", maxMessage>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Package guests starts the programs of agents that are not driven by a model of this node (internal/agent/guest), in the node's sandbox.
//
// The one idea: a program is held as a command of its agent is, and has two ways out of its box, both of them Unix sockets that
// the node made for it alone: one to a proxy that reaches the hosts of its definition, and one to the MCP server of its agent.
//
// Guarantees: its home is a directory of its session, which no other command sees. It gets copies of the files of the user's
// login that its definition names, and sees no other. It does not start on a machine that cannot hold it, unless the sandbox
// is off.
package guests

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/node/config"
	"symbio/internal/agent/guest"
	"symbio/internal/agent/guest/egress"
	runner "symbio/internal/agent/node/exec"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

// Config sets up a Host.
type Config struct {
	Runner  *runner.Runner
	Sandbox config.Sandbox // of the node
	Dir     string         // the node's workspace
	Home    string         // of the user
	Getenv  func(string) string
	// State is the directory in which the sessions have theirs.
	State  string
	Logger *slog.Logger
}

// Host starts programs. It implements guest.Host.
type Host struct {
	cfg Config

	mu   sync.Mutex
	used map[string]int // how many programs use a directory; guarded by mu
}

// New returns a Host.
func New(cfg Config) *Host { return &Host{cfg: cfg, used: map[string]int{}} }

// Program returns the program of an agent. It is agent.Config.Programs.
func (h *Host) Program(c agent.ProgramConfig) agent.Program { return guest.New(h, c) }

const (
	// maxOutput is how much a program may print in its life before it is ended.
	maxOutput = 1 << 40
	// maxSaid is how much of its standard error is kept, half from the start and half from the end.
	maxSaid = 4 << 10
	// exitTime is how long a program may take to end when its standard input is closed: an agent that ends waits for it.
	exitTime = 500 * time.Millisecond
	// maxCPU is the processor time of one process of a program: sessions last for days.
	maxCPU = 24 * time.Hour
	// maxConnections is how many connections a program may have to its MCP server.
	maxConnections = 8
	// maxLogin is the size of a file of a login, in bytes.
	maxLogin = 1 << 20
)

// Start starts a program in its box.
func (h *Host) Start(ctx context.Context, o guest.Order) (_ *guest.Process, err error) {
	var undo cleanup
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	argv, path, err := h.command(o.Program)
	if err != nil {
		return nil, err
	}
	dir, err := h.directory(o.Session(), &undo)
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(dir, "tmp") // its /tmp, and its home in that
	home := filepath.Join(temp, "home")
	if err := errors.Join(os.MkdirAll(home, 0o700), h.copyLogin(o.Program.Login, home)); err != nil {
		return nil, err
	}
	// A short path: a socket's has at most some 100 bytes.
	sockets, err := os.MkdirTemp("", "symbio-guest-")
	if err != nil {
		return nil, err
	}
	undo.add(func() { os.RemoveAll(sockets) })
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	policy, err := h.policy(o, sockets)
	policy.Files.Read = slices.Concat(policy.Files.Read, sandbox.ProgramPaths(argv[0], argv[1:]...), sandbox.ProgramPaths(self))
	if err != nil {
		return nil, err
	}
	box, err := h.cfg.Runner.Box(h.cfg.Sandbox, o.Dir() != h.cfg.Dir) // what is for another node is held in any case
	if err != nil {
		return nil, err
	}
	if box.Status().Level != sandbox.Off {
		home = "/tmp/home"
	}
	proxy, err := egress.New(egress.Config{Hosts: o.Program.Hosts, Log: func(c egress.Connection) {
		h.cfg.Logger.Info("a program of an agent connects", "agent", o.Name, "host", c.Host, "sent", c.Sent, "received", c.Received, "refused", c.Refused)
	}})
	if err != nil {
		return nil, fmt.Errorf("acp.hosts: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	err = serve(life, sockets, proxy, o.Serve, &undo)
	undo.add(end) // before serve's own, which wait for it
	if err != nil {
		return nil, err
	}
	inside := []string{self, "guest-box"}
	for _, port := range proxy.Loopback() {
		inside = append(inside, "--port", fmt.Sprint(port))
	}
	spec := sandbox.Spec{Argv: append(append(inside, sockets, "--"), argv...), Dir: o.Dir(), Keep: maxSaid, Flood: maxOutput,
		Env: append(h.environment(o.Program, path), "HOME="+home), Temp: temp}
	said := &tail{}
	spec.Stderr = said
	p, err := box.Start(life, policy, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	undo.add(func() { p.Close(exitTime) })
	return &guest.Process{In: p.Stdin, Out: p.Stdout, End: sync.OnceFunc(undo.run), Said: said.String,
		MCP: []string{self, "guest-mcp", filepath.Join(sockets, mcpSocket)}, Notes: filepath.Join(dir, "notes.json")}, nil
}

// command returns the program with its whole path, and the PATH of the node, by which it finds its interpreter.
func (h *Host) command(p definition.Program) (argv []string, path string, err error) {
	path = h.cfg.Getenv("PATH")
	argv = slices.Clone(p.Command)
	if argv[0], err = find(argv[0], path, h.cfg.Home); err != nil {
		return nil, "", fmt.Errorf("%w: %s is not on the PATH of this node; symbio agents add says how to install it", sandbox.ErrNotStarted, p.Command[0])
	}
	return argv, path, nil
}

// find looks for a program as a shell does.
func find(name, path, home string) (string, error) {
	if rest, cut := strings.CutPrefix(name, "~/"); cut {
		name = filepath.Join(home, rest)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(cmp.Or(dir, "."), name)); err == nil && filepath.IsAbs(found) {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// directory returns the directory of a session, which is used until undo. It removes those that no session needs any more.
func (h *Host) directory(session string, undo *cleanup) (dir string, err error) {
	if err := os.MkdirAll(h.cfg.State, 0o700); err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if session != "" && filepath.IsLocal(session) {
		dir = filepath.Join(h.cfg.State, session)
		err = os.MkdirAll(dir, 0o700)
	} else {
		dir, err = os.MkdirTemp(h.cfg.State, once)
		undo.add(func() { os.RemoveAll(dir) })
	}
	h.used[dir]++
	undo.add(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.used[dir]--; h.used[dir] == 0 {
			delete(h.used, dir)
		}
	})
	h.tidy()
	return dir, err
}

// once begins the names of directories that go with their program, and maxUnused is how long another one is kept that no
// program uses: a session that goes on after that begins a new one of its program.
const once, maxUnused = "once-", 30 * 24 * time.Hour

// tidy removes directories that no program uses: those of programs that a crash of the node has ended, and old ones. The
// caller holds mu.
func (h *Host) tidy() {
	entries, _ := os.ReadDir(h.cfg.State) // a directory that stays is tried again the next time
	for _, e := range entries {
		dir := filepath.Join(h.cfg.State, e.Name())
		info, err := e.Info()
		if err == nil && h.used[dir] == 0 && (strings.HasPrefix(e.Name(), once) || time.Since(info.ModTime()) > maxUnused) {
			os.RemoveAll(dir)
		}
	}
}

// copyLogin copies the files of a login into the home of a program, unless it has newer ones: programs renew their logins.
func (h *Host) copyLogin(files []string, home string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range files {
		from := file
		if rest, cut := strings.CutPrefix(file, "~/"); cut {
			from = filepath.Join(h.cfg.Home, rest)
		}
		rel, err := filepath.Rel(h.cfg.Home, from)
		if err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("acp.login: %s is not in the home directory", file)
		}
		info, err := os.Stat(from)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the program says that it wants a login
		case err != nil:
			return err
		case !info.Mode().IsRegular() || info.Size() > maxLogin:
			return fmt.Errorf("acp.login: %s is no file of at most %d MiB", file, maxLogin>>20)
		}
		if own, err := root.Lstat(rel); err == nil && !own.ModTime().Before(info.ModTime()) {
			continue
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		root.Remove(rel)
		if err := errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.WriteFile(rel, text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// policy returns what a program may do: at most the work of a command in its directory, with its sockets and a network of its
// own.
func (h *Host) policy(o guest.Order, sockets string) (sandbox.Policy, error) {
	p, err := h.cfg.Sandbox.Policy(o.Dir(), h.cfg.Home)
	if err != nil {
		return p, err
	}
	work, err := sandbox.Standard(o.Dir())
	if err != nil {
		return p, err
	}
	work.Env, work.Files.Show, work.Files.Sockets = p.Env, p.Files.Show, p.Files.Sockets
	if p = sandbox.Meet(p, work); o.Constrain != nil {
		p = o.Constrain(p)
	}
	if p.Network == sandbox.NetworkNone || !p.Subprocess {
		return p, errors.New("its sandbox gives it no network of its own, or no other programs, and it needs both: sandbox: {network: local}")
	}
	p.Network, p.Limits.CPU = sandbox.NetworkLocal, maxCPU
	p.Files.Sockets = append(slices.Clip(p.Files.Sockets), filepath.Join(sockets, proxySocket), filepath.Join(sockets, mcpSocket))
	for _, v := range o.Program.Env {
		name, _, _ := strings.Cut(v, "=")
		p.Env = append(slices.Clip(p.Env), name)
	}
	return p, nil
}

// environment returns the variables of a program.
func (h *Host) environment(p definition.Program, path string) []string {
	env := []string{"PATH=" + path}
	for _, v := range p.Env {
		if !strings.Contains(v, "=") {
			value := h.cfg.Getenv(v)
			if value == "" {
				continue
			}
			v += "=" + value
		}
		env = append(env, v)
	}
	return env
}

// The sockets of a program.
const proxySocket, mcpSocket = "proxy.sock", "mcp.sock"

// serve listens on the sockets of a program until ctx ends.
func serve(ctx context.Context, dir string, proxy *egress.Proxy, mcp func(context.Context, net.Conn), undo *cleanup) error {
	out, err := net.Listen("unix", filepath.Join(dir, proxySocket))
	if err != nil {
		return err
	}
	in, err := net.Listen("unix", filepath.Join(dir, mcpSocket))
	if err != nil {
		return errors.Join(err, out.Close())
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = proxy.Serve(ctx, out) }) // it ends with ctx
	serving.Go(func() {
		free := make(chan struct{}, maxConnections)
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			select {
			case free <- struct{}{}:
				serving.Go(func() {
					defer func() { <-free }()
					defer c.Close()
					mcp(ctx, c)
				})
			default:
				c.Close()
			}
		}
	})
	undo.add(serving.Wait)
	undo.add(func() { in.Close(); out.Close() })
	return nil
}

// cleanup are functions to run, the last one first.
type cleanup struct{ all []func() }

func (c *cleanup) add(f func()) { c.all = append(c.all, f) }

func (c *cleanup) run() {
	for _, f := range slices.Backward(c.all) {
		f()
	}
}

// tail keeps the end of a standard error. It may be used by several goroutines.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-maxSaid):])
	return len(p), nil
}

// String returns the last lines in a printable form.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return visible.Line(strings.Join(lines[max(0, len(lines)-5):], " | "), 600)
}

package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"symbio/internal/security/audit"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/skills/choice"
	"symbio/internal/skills/share"
	"symbio/internal/skills/trust"
)

// Dir is the path of the directory where the nodes of a user keep their state:
// DIR/authority, DIR/cluster (the authority of a cluster), DIR/skills and
// DIR/nodes/NAME. A Dir has no state in memory; several processes use it at the
// same time.
type Dir string

// Default returns the directory of a user: symbio in XDG_STATE_HOME, else
// ~/.local/state, on Windows LOCALAPPDATA. Relative paths in the environment
// are ignored.
func Default(home string, getenv func(string) string) Dir {
	dir := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) && runtime.GOOS == "windows" {
		dir = getenv("LOCALAPPDATA")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(home, ".local", "state")
	}
	return Dir(filepath.Join(dir, "symbio"))
}

// Node is the part of the directory that belongs to one node.
type Node struct {
	dir  Dir
	name string
}

// Node returns the part of the node with this name. It need not exist.
func (s Dir) Node(name string) Node { return Node{s, name} }

// ErrRunning means that another process runs a node with this name.
var ErrRunning = errors.New("a node of that name is running")

// nodeName matches the names of nodes. They are names of directories, so they
// have no slashes and no leading dot.
var nodeName = lazyregexp.New(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// maxSocketPath is the longest path of a Unix socket that every system accepts:
// 104 bytes on BSD, with the final NUL.
const maxSocketPath = 100

// Authority returns the directory of the user's own authority.
func (s Dir) Authority() string { return filepath.Join(string(s), "authority") }

// path returns the directory of the node.
func (n Node) path() string { return filepath.Join(string(n.dir), "nodes", n.name) }

// Workspaces returns the directory of the data that other nodes have sent of their
// workspaces, which commands must not see, and the directory of the workspaces in which
// agents work now.
func Workspaces(n Node) (sent, leases string) {
	return filepath.Join(n.path(), "workspaces"), filepath.Join(string(n.dir), "leases", n.name)
}

// Audit returns the directory of the record of decisions.
func (n Node) Audit() string { return filepath.Join(n.path(), "audit") }

// Sessions returns the file of the node's conversations.
func (n Node) Sessions() string { return filepath.Join(n.path(), "sessions.db") }

// Artifacts returns the directory of the node's artifacts.
func (n Node) Artifacts() string { return filepath.Join(n.path(), "artifacts") }

// WithSessions returns the sorted names of the nodes that have kept
// conversations.
func (s Dir) WithSessions() (names []string) {
	files, _ := filepath.Glob(s.Node("*").Sessions()) // the pattern is well-formed
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

// LoginPage returns the path of the page that leads a browser to the dashboard.
// It has a secret address, which is worthless after its use or two minutes.
func (n Node) LoginPage() string { return filepath.Join(n.path(), "dashboard.html") }

// Checkpoint returns the file that says how long the record of decisions was.
// It is outside of the record, so that removing the record does not remove the
// proof.
func (n Node) Checkpoint() string { return filepath.Join(n.dir.checkpoints(), n.name+".json") }

// checkpoints returns the directory of the checkpoints of all nodes.
func (s Dir) checkpoints() string { return filepath.Join(string(s), "checkpoints") }

// ReadCheckpoint reads the checkpoint of a node and verifies that this node
// signed it. Another signature is audit.ErrBroken.
func (n Node) ReadCheckpoint() (audit.Checkpoint, error) {
	c, err := audit.ReadCheckpoint(n.Checkpoint())
	if err != nil {
		return c, err
	}
	own, err := n.dir.OwnIDs()
	if err == nil && own[c.Node] != n.name {
		err = fmt.Errorf("%w: the checkpoint %s is signed by node %s, which is not %s", audit.ErrBroken, n.Checkpoint(), c.Node, n.name)
	}
	return c, err
}

// Recorded returns the names of the nodes that have a record of decisions, or a
// checkpoint of a record that is gone.
func (s Dir) Recorded() (names []string) {
	dirs, _ := filepath.Glob(s.Node("*").Audit()) // the pattern is well-formed
	for _, d := range dirs {
		names = append(names, filepath.Base(filepath.Dir(d)))
	}
	files, _ := filepath.Glob(s.Node("*").Checkpoint())
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Standing returns the file of the lasting approvals of a node. It is outside
// of the directories that commands may write, so that the sandbox protects it
// under every policy.
func (n Node) Standing() string { return filepath.Join(n.dir.allowed(), n.name+".json") }

// allowed returns the directory of the lasting approvals of all nodes.
func (s Dir) allowed() string { return filepath.Join(string(s), "allowed") }

// Skills returns the record of trusted skills and the store of skills from
// other nodes. All nodes of the user share both.
func (s Dir) Skills() trust.Keeper {
	return trust.Keeper{Book: trust.NewBook(s.trusted()), Store: share.NewStore(filepath.Join(string(s), "skills", "fetched"))}
}

// SkillsOff returns the record of skills that the user has switched off. All
// nodes of the user share it.
func (s Dir) SkillsOff() choice.Book {
	return choice.NewBook(filepath.Join(string(s), "skills", "off"))
}

// trusted returns the directory of the trusted skills.
func (s Dir) trusted() string { return filepath.Join(string(s), "skills", "trusted") }

// Prepare makes the directories of trust and approvals. They must exist before
// commands run: the sandbox protects existing directories only.
func (s Dir) Prepare() error {
	var errs []error
	for _, dir := range []string{s.trusted(), s.allowed(), filepath.Join(s.mcp(), "trusted"), filepath.Join(s.mcp(), "tools"), s.Packages().Records()} {
		errs = append(errs, os.MkdirAll(dir, 0o700))
	}
	return errors.Join(errs...)
}

// Private returns the directories that commands must not see: keys, records and
// checkpoints, control sockets, the trusted MCP servers and their packages.
func (s Dir) Private() []string {
	return []string{s.Authority(), s.checkpoints(), s.Cluster(), s.mcp(), s.Packages().Dir, filepath.Join(string(s), "nodes")}
}

// Key returns the file of the private key of the node.
func (n Node) Key() string { return filepath.Join(n.path(), "key.pem") }

// Socket returns the path of the control socket. If the path in the state
// directory is too long for a socket, it is in a directory of this user below
// the directory for temporary files, under a hash of the path.
func (n Node) Socket() string {
	path := filepath.Join(n.path(), "control.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), "symbio-"+strconv.Itoa(os.Getuid()), hex.EncodeToString(sum[:8])+".sock")
}

// Lock reserves the name of the node for this process until release is called.
// It returns ErrRunning if another process has it. The lock ends with the
// process, however that ends.
func (n Node) Lock() (release func() error, err error) {
	if err := checkName(n.name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.path(), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(n.path(), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("node %q: %w", n.name, ErrRunning), f.Close())
	}
	return f.Close, nil // closing the file releases the lock
}

// checkName returns an error unless name can be the name of a node.
func checkName(name string) error {
	if len(name) > 63 || !nodeName().MatchString(name) {
		return fmt.Errorf("node name %q: want up to 63 lower-case letters and digits, with single . _ or - between them", name)
	}
	return nil
}

// ClaimFree reserves the first free name of base, base-2, base-3 and so on.
// After maxNodes names it returns ErrRunning.
func (s Dir) ClaimFree(base string) (name string, release func() error, err error) {
	name = base
	for i := 2; ; i++ {
		release, err = s.Node(name).Lock()
		if !errors.Is(err, ErrRunning) || i > maxNodes {
			return name, release, err
		}
		name = base + "-" + strconv.Itoa(i)
	}
}

// maxNodes bounds the search of ClaimFree. More unnamed nodes on one machine
// are a loop in a script.
const maxNodes = 100

// ListenControl opens the control socket for this user only. The modes of file
// and directory and the check of the peer's user protect it; each is enough on
// most systems. It removes the socket of a crashed node: the caller must hold
// the name (Claim), so no other process listens there.
func (n Node) ListenControl() (net.Listener, error) {
	path := n.Socket()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !isPrivate(info) {
		return nil, fmt.Errorf("%s must be a directory that only you can use: chmod 700 it, or remove it", dir)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return ownListener{l}, nil
}

// ownListener accepts connections of processes of this user and of root, and
// closes all others.
type ownListener struct{ net.Listener }

// Accept waits for the next connection of a permitted process.
func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && (uid == os.Getuid() || uid == 0) {
			return conn, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

// connect opens a connection to the control socket and verifies that a process
// of this user, or root, listens there. The directory for temporary files is
// open to all users, so another one could have made the socket.
func (n Node) connect(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", n.Socket())
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn)
	if err == nil && uid != os.Getuid() && os.Getuid() != 0 {
		err = fmt.Errorf("the control socket %s belongs to a process of user %d; remove it, or ask that user to", n.Socket(), uid)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Running returns the sorted names of this user's nodes that answer on their
// control sockets.
func (s Dir) Running() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(string(s), "nodes"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		conn, err := s.Node(e.Name()).connect(context.Background())
		if err != nil {
			continue
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// dialWindow is how many bytes of a reply may arrive before the client asks for more. A list of
// 10,000 skills fits, so that the node sends it without waiting.
const dialWindow = 4 << 20

// Dial returns a client of the control socket. Both ends are processes of one
// user; that is their authentication. The caller closes it.
func (n Node) Dial() (*grpc.ClientConn, error) {
	connect := func(ctx context.Context, _ string) (net.Conn, error) { return n.connect(ctx) }
	return grpc.NewClient("unix:"+n.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(connect),
		grpc.WithInitialWindowSize(dialWindow), grpc.WithInitialConnWindowSize(dialWindow))
}

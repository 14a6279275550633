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
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"symbio/security/audit"
	"symbio/skills/choice"
	"symbio/skills/share"
	"symbio/skills/trust"
)

// Dir is the path of the directory where a user's nodes keep what lasts: DIR/authority, DIR/cluster
// (of a cluster that was made here), DIR/skills and DIR/nodes/NAME.
type Dir string

// Default is the directory of a user: symbio in XDG_STATE_HOME, or in what the system has in its place. getenv reads the
// environment.
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

// Node is what the directory holds of one node.
type Node struct {
	dir  Dir
	name string
}

// Node returns the part of the node of that name. Nothing has to be there yet.
func (s Dir) Node(name string) Node { return Node{s, name} }

// ErrRunning says that a node of that name runs already.
var ErrRunning = errors.New("a node of that name is running")

var nodeName = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// maxSocketPath is what every system takes for the path of a Unix socket (104 bytes on BSD, with its NUL).
const maxSocketPath = 100

// Authority is the directory of the user's own authority.
func (s Dir) Authority() string { return filepath.Join(string(s), "authority") }

func (n Node) path() string { return filepath.Join(string(n.dir), "nodes", n.name) }

// Audit is the directory of a node's record of decisions.
func (n Node) Audit() string { return filepath.Join(n.path(), "audit") }

// Checkpoint is the file that says how far a node's record of decisions had come. It lies apart from the record.
func (n Node) Checkpoint() string { return filepath.Join(n.dir.checkpoints(), n.name+".json") }

func (s Dir) checkpoints() string { return filepath.Join(string(s), "checkpoints") }

// ReadCheckpoint reads a node's checkpoint, which that node has to have signed.
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

// Recorded are the nodes that have a record of decisions, or a checkpoint of one that is gone.
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

// Standing is the file of what a person has allowed for good on a node. It lies apart from what commands of that node
// may write, so that the sandbox can keep them from it, whatever else they may.
func (n Node) Standing() string { return filepath.Join(n.dir.allowed(), n.name+".json") }

func (s Dir) allowed() string { return filepath.Join(string(s), "allowed") }

// Skills is where what people have trusted of skills is kept, and the skills that came from other nodes. Both
// are the user's, for all nodes.
func (s Dir) Skills() trust.Keeper {
	return trust.Keeper{Book: trust.NewBook(s.trusted()), Store: share.NewStore(filepath.Join(string(s), "skills", "fetched"))}
}

// SkillsOff is where it is kept which skills the user has switched off, for all nodes.
func (s Dir) SkillsOff() choice.Book {
	return choice.NewBook(filepath.Join(string(s), "skills", "off"))
}

func (s Dir) trusted() string { return filepath.Join(string(s), "skills", "trusted") }

// Prepare makes the directories of what people trust and allow: the sandbox cannot keep commands from making a directory
// that is not there.
func (s Dir) Prepare() error {
	var errs []error
	for _, dir := range []string{s.trusted(), s.allowed(), filepath.Join(s.mcp(), "trusted"), filepath.Join(s.mcp(), "tools")} {
		errs = append(errs, os.MkdirAll(dir, 0o700))
	}
	return errors.Join(errs...)
}

// Private are the directories with what only nodes may read: keys, the record of decisions and its checkpoints, control
// sockets, what people trust of MCP servers.
func (s Dir) Private() []string {
	return []string{s.Authority(), s.checkpoints(), s.Cluster(), s.mcp(), filepath.Join(string(s), "nodes")}
}

// Key is the file of a node's key.
func (n Node) Key() string { return filepath.Join(n.path(), "key.pem") }

// Socket is the path of a node's control socket. Where the state directory's path is too long for
// one, it is in the system's directory for temporary files, in a directory of this user's own.
func (n Node) Socket() string {
	path := filepath.Join(n.path(), "control.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), "symbio-"+strconv.Itoa(os.Getuid()), hex.EncodeToString(sum[:8])+".sock")
}

// Claim takes a node's name for this process until release is called. ErrRunning says that another
// process has it. The name must be free of anything that a path could be made of.
func (n Node) Claim() (release func() error, err error) {
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
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("node %q: %w", n.name, ErrRunning), f.Close())
	}
	return f.Close, nil // closing lets go of the lock, as the end of the process does
}

func checkName(name string) error {
	if len(name) > 63 || !nodeName.MatchString(name) {
		return fmt.Errorf("node name %q: want up to 63 lower-case letters and digits, with single . _ or - between them", name)
	}
	return nil
}

// ClaimFree takes the first free name of base, base-2, base-3 and so on.
func (s Dir) ClaimFree(base string) (name string, release func() error, err error) {
	name = base
	for i := 2; ; i++ {
		release, err = s.Node(name).Claim()
		if !errors.Is(err, ErrRunning) || i > maxNodes {
			return name, release, err
		}
		name = base + "-" + strconv.Itoa(i)
	}
}

// maxNodes bounds how many nodes one user runs on a machine without naming them.
const maxNodes = 100

// ListenControl opens the control socket, for this user only: by the modes of its file and directory, and by who it is that
// connects. A socket file that a node left behind is removed: the caller holds the lock, so no process listens there.
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
	if !info.IsDir() || !closed(info) {
		return nil, fmt.Errorf("%s must be a directory that only you can enter", dir)
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

// ownListener accepts connections of this user's processes, and of root's, and closes those of others.
type ownListener struct{ net.Listener }

func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && (uid == os.Getuid() || uid == 0) {
			return conn, nil
		}
		_ = conn.Close() // nothing was said
	}
}

// connect opens a connection to a node's control socket, unless another user's process has it: the directory for
// temporary files is open to all.
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

// Running lists the names of this user's nodes that answer on their control sockets, sorted.
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

// Dial connects to a node's control socket. That both ends are processes of one user is all the proof that either needs.
// The caller closes the connection.
func (n Node) Dial() (*grpc.ClientConn, error) {
	connect := func(ctx context.Context, _ string) (net.Conn, error) { return n.connect(ctx) }
	return grpc.NewClient("unix:"+n.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(connect))
}

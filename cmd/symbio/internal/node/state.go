package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"symbio/skills/choice"
	"symbio/skills/share"
	"symbio/skills/trust"
)

// State is the directory where a user's nodes keep what lasts: DIR/authority, DIR/cluster
// (of a cluster that was made here), DIR/skills and DIR/nodes/NAME.
type State struct {
	Dir string
}

// ErrRunning says that a node of that name runs already.
var ErrRunning = errors.New("a node of that name is running")

var nodeName = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// maxSocketPath is what every system takes for the path of a Unix socket (104 bytes on BSD, with its NUL).
const maxSocketPath = 100

// Authority is the directory of the user's own authority.
func (s State) Authority() string { return filepath.Join(s.Dir, "authority") }

func (s State) node(name string) string { return filepath.Join(s.Dir, "nodes", name) }

// Audit is the directory of a node's record of decisions.
func (s State) Audit(name string) string { return filepath.Join(s.node(name), "audit") }

// Standing is the file of what a person has allowed for good on a node. It lies apart from what commands of that node
// may write, so that the sandbox can keep them from it, whatever else they may.
func (s State) Standing(name string) string { return filepath.Join(s.allowed(), name+".json") }

func (s State) allowed() string { return filepath.Join(s.Dir, "allowed") }

// Skills is where what people have trusted of skills is kept, and the skills that came from other nodes. Both
// are the user's, for all nodes.
func (s State) Skills() trust.Keeper {
	return trust.Keeper{Book: trust.NewBook(s.trusted()), Store: share.NewStore(filepath.Join(s.Dir, "skills", "fetched"))}
}

// SkillsOff is where it is kept which skills the user has switched off, for all nodes.
func (s State) SkillsOff() choice.Book { return choice.NewBook(filepath.Join(s.Dir, "skills", "off")) }

func (s State) trusted() string { return filepath.Join(s.Dir, "skills", "trusted") }

// makeSkills makes the directory of trust: what is not there, the sandbox could not keep commands from making.
func (s State) makeSkills() error { return os.MkdirAll(s.trusted(), 0o700) }

// Private are the directories with what only nodes may read: keys, the record of decisions, control
// sockets, what people trust of MCP servers.
func (s State) Private() []string {
	return []string{s.Authority(), s.cluster(), s.mcp(), filepath.Join(s.Dir, "nodes")}
}

// Key is the file of a node's key.
func (s State) Key(name string) string { return filepath.Join(s.node(name), "key.pem") }

// Socket is the path of a node's control socket. Where the state directory's path is too long for
// one, it is in the system's directory for temporary files, in a directory of this user's own.
func (s State) Socket(name string) string {
	path := filepath.Join(s.node(name), "control.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), "symbio-"+strconv.Itoa(os.Getuid()), hex.EncodeToString(sum[:8])+".sock")
}

// Claim takes a node's name for this process until release is called. ErrRunning says that another
// process has it. The name must be free of anything that a path could be made of.
func (s State) Claim(name string) (release func() error, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.node(name), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.node(name), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("node %q: %w", name, ErrRunning), f.Close())
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
func (s State) ClaimFree(base string) (name string, release func() error, err error) {
	name = base
	for i := 2; ; i++ {
		release, err = s.Claim(name)
		if !errors.Is(err, ErrRunning) || i > maxNodes {
			return name, release, err
		}
		name = base + "-" + strconv.Itoa(i)
	}
}

// maxNodes bounds how many nodes one user runs on a machine without naming them.
const maxNodes = 100

// listenControl opens the control socket, for this user only. A socket file that a node left behind
// is removed: the caller holds the lock, so nobody listens there.
func (s State) listenControl(name string) (net.Listener, error) {
	path := s.Socket(name)
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
	return l, nil
}

// Running lists the names of this user's nodes that answer on their control sockets, sorted.
func (s State) Running() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.Dir, "nodes"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		conn, err := net.DialTimeout("unix", s.Socket(e.Name()), time.Second)
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

// Dial connects to a node's control socket, which is open to this user only: all the proof that
// either side needs. The caller closes the connection.
func (s State) Dial(name string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+s.Socket(name), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

package state

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// dialAs is set in a child of the test: which socket to connect to.
const dialAs = "SYMBIO_TEST_DIAL"

// The modes let another user in, as a careless chmod does; the peer's user id does not.
func TestControlSocketRefusesAnotherUser(t *testing.T) {
	if path := os.Getenv(dialAs); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("another user was let in")
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "sy")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := Dir(dir)
	l, err := s.Node("n").ListenControl()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan int, 4)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			uid, _ := peerUID(conn)
			_, _ = conn.Write([]byte("x"))
			accepted <- uid
		}
	}()
	defer l.Close()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(own)
	self := filepath.Join(dir, "self.test")
	if err := errors.Join(err, os.WriteFile(self, text, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "nodes"), 0o755), os.Chmod(s.Node("n").path(), 0o777), os.Chmod(s.Node("n").Socket(), 0o777)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestControlSocketRefusesAnotherUser$")
	c.Dir, c.Env = dir, []string{"HOME=" + dir, "TMPDIR=" + dir, dialAs + "=" + s.Node("n").Socket()}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	conn, err := s.Node("n").connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if uid := <-accepted; uid != os.Getuid() {
		t.Errorf("user %d was accepted first, want %d", uid, os.Getuid())
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

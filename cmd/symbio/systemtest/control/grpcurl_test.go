//go:build system && linux

package control_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
	"symbio/security/identity"
)

// grpcurlProgram names grpcurl where it is not in PATH; .ci/run installs it.
const grpcurlProgram = "SYMBIO_TEST_GRPCURL"

// client is grpcurl, a client that nobody here wrote, with the flags by which it reaches a service.
type client struct {
	t       *testing.T
	program string
	flags   []string
}

func grpcurl(t *testing.T) client {
	t.Helper()
	program := os.Getenv(grpcurlProgram)
	if program == "" {
		program = "grpcurl"
	}
	program, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs grpcurl, in PATH or named by %s: go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4: %v", grpcurlProgram, err)
	}
	return client{t: t, program: program}
}

func (c client) with(flags ...string) client {
	c.flags = append(append([]string(nil), c.flags...), flags...)
	return c
}

func (c client) run(args ...string) (string, error) {
	c.t.Helper()
	args = append(append([]string{"-connect-timeout", "3", "-max-time", "20"}, c.flags...), args...)
	out, err := exec.CommandContext(c.t.Context(), c.program, args...).CombinedOutput()
	return string(out), err
}

// does makes a call that has to succeed.
func (c client) does(into any, args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("grpcurl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(out), into); err != nil {
			c.t.Fatalf("grpcurl %s printed %v:\n%s", strings.Join(args, " "), err, out)
		}
	}
	return out
}

// refused makes a call that has to fail, and say why.
func (c client) refused(why string, args ...string) {
	c.t.Helper()
	out, err := c.run(args...)
	if err == nil || !strings.Contains(out, why) {
		c.t.Errorf("grpcurl %s: %v, want it to say %q:\n%s", strings.Join(args, " "), err, why, out)
	}
}

// A foreign client lists and calls the service of the command line on its socket, and the service between
// nodes with a certificate of the same authority; without one it gets nothing.
func TestGRPCurlCallsBothServices(t *testing.T) {
	t.Parallel()
	c := grpcurl(t)
	state := symbiotest.ShortDir(t)
	config := filepath.Join(state, "a.yaml")
	if err := os.WriteFile(config, []byte(`
authorize: [{from: local, invoke: [echo]}]
capabilities:
  - {name: echo, description: Says it again, exec: [cat]}
  - {name: secret, description: Nobody may, exec: [cat]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("symbio", "up", "--json", "--name", "a", "--no-mdns", "--config", config)
	cmd.Env = append(os.Environ(), "HOME="+state, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state)
	node := symbiotest.Started(t, cmd)
	ready := node.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	dir := filepath.Join(state, "symbio")

	t.Run("Control, on its socket", func(t *testing.T) {
		c := c
		c.t = t
		c = c.with("-plaintext", "-unix")
		socket := filepath.Join(dir, "nodes", "a", "control.sock")
		if out := c.does(nil, socket, "list"); !strings.Contains(out, "symbio.v1.Control\n") {
			t.Errorf("list = %q", out)
		}
		if out := c.does(nil, socket, "list", "symbio.v1.Control"); !strings.Contains(out, "symbio.v1.Control.Members") {
			t.Errorf("list of Control = %q", out)
		}
		var status struct{ ID, Name string }
		if c.does(&status, socket, "symbio.v1.Control/Status"); status.Name != "a" || status.ID != ready.ID {
			t.Errorf("status = %+v, want a, %s", status, ready.ID)
		}
		c.with("-d", `{"capability": "nothing"}`).refused("NotFound", socket, "symbio.v1.Control/Call")
	})

	peer := func(t *testing.T) client {
		c := c
		c.t = t
		proto, err := filepath.Abs("../../../../proto")
		if err != nil {
			t.Fatal(err)
		}
		// The name is that of any node of the authority; the program that dials one node asks for its id.
		return c.with("-cacert", filepath.Join(dir, "authority", "authority.pem"), "-servername", "any.local.symbio",
			"-import-path", proto, "-proto", "symbio/v1/peer.proto")
	}
	invoke := func(c client, capability string) client {
		data := base64.StdEncoding.EncodeToString([]byte(`{"say": "hello"}`))
		return c.with("-d", `{"call_id": "1", "capability": "`+capability+`", "payload": "`+data+`", "content_type": "application/json", "deadline": "5s"}`)
	}
	const describe = `{"protocol": {"major": 1, "minor": 1}, "name": "grpcurl"}`

	t.Run("Peer, with a certificate", func(t *testing.T) {
		certificate, key := certified(t, filepath.Join(dir, "authority"))
		c := peer(t).with("-cert", certificate, "-key", key)
		if out := c.does(nil, ready.Listen, "list", "symbio.v1.Peer"); !strings.Contains(out, "symbio.v1.Peer.Invoke\n") {
			t.Errorf("list = %q", out)
		}
		var d struct {
			ID      string
			Catalog struct{ Capabilities []struct{ Name string } }
		}
		c.with("-d", describe).does(&d, ready.Listen, "symbio.v1.Peer/Describe")
		if n := len(d.Catalog.Capabilities); d.ID != ready.ID || n < 2 {
			t.Errorf("it is described as %+v, want %s with echo and secret", d, ready.ID)
		}
		var reply struct{ Payload []byte }
		invoke(c, "echo").does(&reply, ready.Listen, "symbio.v1.Peer/Invoke")
		if string(reply.Payload) != `{"say": "hello"}` {
			t.Errorf("echo answered %q", reply.Payload)
		}
		invoke(c, "secret").refused("PermissionDenied", ready.Listen, "symbio.v1.Peer/Invoke")
		// Strangers learn nothing from a node of what it could be asked.
		c.flags = c.flags[:4] // without the files of the protocol
		c.with("-cert", certificate, "-key", key).refused("does not support the reflection API", ready.Listen, "list")
	})

	t.Run("Peer, without one", func(t *testing.T) {
		peer(t).with("-d", describe).refused("Failed to dial", ready.Listen, "symbio.v1.Peer/Describe")
	})

	t.Run("Peer, with one of another authority", func(t *testing.T) {
		certificate, key := certified(t, t.TempDir())
		peer(t).with("-cert", certificate, "-key", key, "-d", describe).refused("Failed to dial", ready.Listen, "symbio.v1.Peer/Describe")
	})
}

// certified makes a key, and a certificate of it by the authority in dir.
func certified(t *testing.T, dir string) (certificateFile, keyFile string) {
	t.Helper()
	authority, err := identity.OpenLocalAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(t.TempDir(), "key.pem")
	key, err := identity.LoadOrCreateKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	id, err := authority.Issue(key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := id.ClientTLS("").GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	certificateFile = filepath.Join(t.TempDir(), "certificate.pem")
	if err := os.WriteFile(certificateFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Leaf.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return certificateFile, keyFile
}

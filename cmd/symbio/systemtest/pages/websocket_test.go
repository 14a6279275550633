//go:build system && linux

package pages_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// proxyCertificate writes a certificate for an address and its key, as a person's own authority makes them.
func proxyCertificate(t *testing.T, ip, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// nginx starts the proxy of the machine with the page's server block, and returns what ends it.
func nginx(t *testing.T, h *symbiotest.Host, server string) (stop func()) {
	t.Helper()
	config := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log %[1]s/error.log; worker_processes 1;
events {}
http {
	access_log %[1]s/access.log;
	client_body_temp_path %[1]s/t; proxy_temp_path %[1]s/t; fastcgi_temp_path %[1]s/t; uwsgi_temp_path %[1]s/t; scgi_temp_path %[1]s/t;
%[2]s}
`, h.State, server)
	if os.Geteuid() == 0 {
		config = "user root; " + config
	}
	file := filepath.Join(h.State, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Run("nginx", "-t", "-c", file, "-e", h.State+"/error.log")
	cmd := h.Inside("nginx", "-c", file, "-e", h.State+"/error.log")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It writes the file when it listens.
	symbiotest.Await(t, "nginx listens", func() bool { _, err := os.Stat(h.State + "/nginx.pid"); return err == nil })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
			<-ended
		}
	}
	t.Cleanup(stop)
	return stop
}

// The section "Through a proxy or a firewall" of the page about clusters leads to two nodes that work for each other
// though nothing but HTTPS, which nginx ends, gets from one machine to the other.
func TestNodesMeetThroughNginx(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("needs nginx, a proxy that ends TLS")
	}
	symbiotest.OnASwitch(t, func(t *testing.T) {
		page, err := os.ReadFile("../../docs/clusters.md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(page), "\n### Through a proxy or a firewall\n")
		section, _, _ = strings.Cut(section, "\n## ")
		blocks := symbiotest.BlocksOf(strings.ReplaceAll(section, "kitchen.example", "10.77.0.1"))
		if len(blocks) != 4 {
			t.Fatalf("the section has %d blocks, want the node, its proxy, the other machine's commands and its configuration", len(blocks))
		}
		first, second := &operator{Host: symbiotest.PlugIn(t, 1)}, &operator{Host: symbiotest.PlugIn(t, 2)}
		const rest = "authorize: [{from: cluster/lab, invoke: [node.info]}]\n"
		for m, config := range map[*operator]string{
			first:  blocks[0].Text + "  name: kitchen\n  listen: 127.0.0.1:7946\n" + rest,
			second: blocks[3].Text + "  mdns: false\nnode: {name: desk, listen: \"127.0.0.1:7946\"}\n" + rest,
		} {
			if err := os.MkdirAll(filepath.Join(m.State, "symbio"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(m.State, "symbio/symbio.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cert, key := filepath.Join(first.State, "kitchen.pem"), filepath.Join(first.State, "kitchen.key")
		proxyCertificate(t, "10.77.0.1", cert, key)
		server := strings.NewReplacer("/etc/ssl/kitchen.pem", cert, "/etc/ssl/kitchen.key", key).Replace(blocks[1].Text)
		stop := nginx(t, first.Host, server)

		first.follows("symbio cluster init --name lab --listen 127.0.0.1:7946\nsymbio up", "")
		pasted := joinLine.FindStringSubmatch(first.follows("symbio cluster token", ""))
		if pasted == nil {
			t.Fatal("no line to paste was printed")
		}
		join, up, _ := strings.Cut(blocks[2].Text, "\n")
		shown := joinLine.FindStringSubmatch(join)
		if shown == nil {
			t.Fatalf("%q is not a line to join with", join)
		}
		join = strings.Replace(pasted[0], pasted[1], shown[1], 1)

		// Without the file of the authority, the proxy's certificate is what the second machine complains about.
		out, err := second.shell(join).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "proxy.pem: no such file") {
			t.Errorf("joining without the file of discovery.roots: %v\n%s", err, out)
		}
		config := filepath.Join(second.State, "symbio/symbio.yaml")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		without := strings.Replace(string(text), "  roots:", "  # roots:", 1)
		if err := os.WriteFile(config, []byte(without), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err = second.shell(join).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "certificate signed by unknown authority; name the file of its authority with the key discovery.roots") {
			t.Errorf("joining through a proxy of an unknown authority: %v\n%s", err, out)
		}
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		pem, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(second.State, "symbio/proxy.pem"), pem, 0o600); err != nil {
			t.Fatal(err)
		}

		second.follows(join+"\n"+up, join)
		first.sees(1)
		second.sees(1)
		for m, other := range map[*operator]string{first: "desk", second: "kitchen"} {
			if out := m.follows("symbio invoke node.info --on "+other, ""); !strings.Contains(out, other) {
				t.Errorf("machine %d asked %s who it is: %s", m.Number, other, out)
			}
		}
		if out := second.follows("symbio nodes --json", ""); !strings.Contains(out, `"addr":"wss://10.77.0.1/symbio"`) || !strings.Contains(out, `"via":"dialled"`) {
			t.Errorf("the second machine sees %s, want the first at its URL", out)
		}
		if out := first.follows("symbio nodes --json", ""); !strings.Contains(out, `"addr":"10.77.0.2"`) || !strings.Contains(out, `"via":"reversed"`) {
			t.Errorf("the first machine sees %s, want the second at the address that nginx says, reversed", out)
		}
		doctor := func(m *operator, want string) {
			t.Helper()
			out, _ := m.shell("symbio doctor").CombinedOutput() // it fails where something is wrong
			if !strings.Contains(string(out), want) {
				t.Errorf("the doctor of machine %d does not say %q:\n%s", m.Number, want, out)
			}
		}
		doctor(first, "WebSockets are accepted at ws://127.0.0.1:8080/symbio")
		doctor(second, "wss://10.77.0.1/symbio answers, after")

		stop()
		second.node.Expect(t, "kitchen unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == "kitchen" })
		doctor(second, "wss://10.77.0.1/symbio does not open: connect: connection refused")
		stop = nginx(t, first.Host, strings.Replace(server, "Connection upgrade", "Connection close", 1))
		doctor(second, "the proxy does not pass on the headers Upgrade and Connection")
		stop()
		stop = nginx(t, first.Host, strings.Replace(server, ":8080", ":8081", 1))
		doctor(second, "HTTP 502 Bad Gateway: the proxy does not reach the node behind it")
		stop()
		nginx(t, first.Host, server)
		at := time.Now()
		back := second.node.Expect(t, "kitchen available", func(l symbiotest.Line) bool { return l.Type == "became available" && l.Name == "kitchen" })
		symbiotest.Within(t, "the proxy is back, and the nodes meet", at, back.Time, 6*time.Second)
	})
}

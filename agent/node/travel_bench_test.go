package node_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/actor"
	"symbio/community"
	"symbio/discovery"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

const (
	travelFiles = 10_000
	travelSize  = 200 << 20
)

// BenchmarkWorkspaceTravels sends 10,000 files of 200 MB, half of which are words and half random, over
// loopback: all of them the first time, and again after one of them changed. The same bytes over a TLS
// connection are in the same run, alone and as a floor: the files read and hashed, sent without compression by
// one goroutine, and hashed and written to one file by another. Both ends share the processors of one machine.
func BenchmarkWorkspaceTravels(b *testing.B) {
	dir := b.TempDir()
	authority, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		b.Fatal(err)
	}
	files := makeFiles(b, filepath.Join(dir, "files"))
	alice, bob := travelNode(b, authority, dir, "alice"), travelNode(b, authority, dir, "bob")
	alice.meet(b, bob, bob.server.Provider(func(community.NodeID, community.MemberID) *transfer.Checkout { return nil }))
	var wire atomic.Int64
	call := func(ctx context.Context, data []byte) ([]byte, error) {
		wire.Add(int64(len(data)))
		reply, err := alice.call(ctx, bob, data)
		wire.Add(int64(len(reply)))
		return reply, err
	}
	push := func() (took time.Duration, sent int64) {
		snapshot, err := workspace.Take(b.Context(), files, workspace.Options{})
		if err != nil {
			b.Fatal(err)
		}
		wire.Store(0)
		begun := time.Now()
		if _, err := alice.server.Client(call, func(community.Progress) {}).Push(b.Context(), snapshot); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun), wire.Load()
	}
	raw := overTLS(b, alice.identity, bob.identity, sendRandom, io.Discard)
	kept, err := os.Create(filepath.Join(dir, "kept"))
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	floor := overTLS(b, alice.identity, bob.identity, func(w io.Writer) error { return sendFiles(w, files) }, io.MultiWriter(kept, sha256.New()))
	first, sent := push()
	if err := os.WriteFile(filepath.Join(files, "d00", "f00000"), []byte("changed"), 0o600); err != nil {
		b.Fatal(err)
	}
	again, changed := push()
	for b.Loop() {
	}
	mb := func(t time.Duration) float64 { return travelSize / 1e6 / t.Seconds() }
	b.ReportMetric(mb(first), "MB/s")
	b.ReportMetric(mb(raw), "MB/s-of-TLS")
	b.ReportMetric(raw.Seconds()/first.Seconds(), "x-of-TLS")
	b.ReportMetric(floor.Seconds()/first.Seconds(), "x-of-floor")
	b.ReportMetric(raw.Seconds()/floor.Seconds(), "floor-x-of-TLS")
	b.ReportMetric(100*float64(sent)/travelSize, "%-sent-first")
	b.ReportMetric(100*float64(changed)/travelSize, "%-sent-after-change")
	b.ReportMetric(again.Seconds(), "s-after-change")
}

// makeFiles makes the files of the workspace.
func makeFiles(b *testing.B, dir string) string {
	b.Helper()
	data := make([]byte, travelSize/travelFiles)
	for i := range travelFiles {
		rand.Read(data)
		if i%2 == 0 {
			words := []string{"func", "return", "err", "nil", "the", "of", "context", "string", "if", "range", "{", "}", "\n\t", "=", ":=", "workspace"}
			text := make([]byte, 0, len(data)+16)
			for j := 0; len(text) < len(data); j++ {
				text = append(append(text, words[data[j]%16]...), ' ')
			}
			copy(data, text)
		}
		name := filepath.Join(dir, fmt.Sprintf("d%02d", i%100), fmt.Sprintf("f%05d", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// traveller is a node with the transport of the product.
type traveller struct {
	id        community.NodeID
	identity  *identity.Identity
	listener  net.Listener
	network   *grpcpeer.Network
	community *community.Community
	server    *transfer.Server
}

func travelNode(b testing.TB, a *identity.Authority, dir, name string) *traveller {
	b.Helper()
	key, err := identity.LoadOrCreateKey(filepath.Join(dir, name, "key.pem"))
	if err != nil {
		b.Fatal(err)
	}
	n := &traveller{}
	if n.identity, err = a.Issue(key); err != nil {
		b.Fatal(err)
	}
	n.id = n.identity.ID()
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	if n.network, err = grpcpeer.New(grpcpeer.Config{Identity: n.identity, Listener: n.listener, Name: name, Limits: grpcpeer.Limits{Message: 1<<20 + 64<<10}}); err != nil {
		b.Fatal(err)
	}
	if n.server, err = transfer.New(transfer.Config{Dir: filepath.Join(dir, name, "stores"), Leases: filepath.Join(dir, name, "leases")}); err != nil {
		b.Fatal(err)
	}
	system := actor.NewSystem(actor.Config{})
	n.community = community.New(community.Config{Node: n.id, Name: name, System: system, Network: n.network, Authorize: func(community.Peer, community.Call) error { return nil }})
	ctx, stop := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return n.community.Run(ctx) })
	b.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
		system.Shutdown(context.Background())
	})
	return n
}

// meet has other serve workspaces by provide, and returns when n has seen that.
func (n *traveller) meet(t testing.TB, other *traveller, provide community.Provider) {
	t.Helper()
	n.network.AddHint(discovery.Candidate{Key: "other", Node: string(other.id), Addrs: []netip.AddrPort{netip.MustParseAddrPort(other.listener.Addr().String())}})
	changes := n.community.Subscribe()
	defer changes.Close()
	err := other.community.Offer(community.Capability{Name: transfer.Capability}, provide)
	for err == nil && len(n.community.WhoProvides(transfer.Capability)) == 0 {
		_, err = changes.Next(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// call sends a message to the workspaces of another node.
func (n *traveller) call(ctx context.Context, other *traveller, data []byte) ([]byte, error) {
	reply, err := n.community.InvokeStream(ctx, community.MemberID(other.id), transfer.Capability, community.Signal{Data: data, ContentType: "application/octet-stream", Requester: []string{string(n.id)}}, nil)
	return reply.Data, err
}

func sendRandom(w io.Writer) (err error) {
	data := make([]byte, 1<<20)
	rand.Read(data)
	for i := 0; i < travelSize/len(data) && err == nil; i++ {
		_, err = w.Write(data)
	}
	return err
}

// sendFiles reads the files of a directory, hashes each and sends it.
func sendFiles(w io.Writer, dir string) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			content.Sum(data)
			_, err = w.Write(data)
		}
		return err
	})
}

// overTLS returns how long what send sends takes over a TLS connection of the same identities.
func overTLS(b *testing.B, from, to *identity.Identity, send func(io.Writer) error, receive io.Writer) time.Duration {
	b.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", to.ServerTLS())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var g errgroup.Group
	g.Go(func() error {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.Copy(receive, c)
		return err
	})
	c, err := tls.Dial("tcp", l.Addr().String(), from.ClientTLS(to.ID()))
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if err := send(c); err != nil {
		b.Fatal(err)
	}
	c.Close()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

package static_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/discovery"
	"symbio/discovery/static"
	"symbio/internal/discovery/discoverytest"
)

// names is a resolver in memory.
type names struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
	slow  map[string]bool
	asked int
}

func (n *names) set(host string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addrs == nil {
		n.addrs = map[string][]netip.Addr{}
	}
	delete(n.addrs, host)
	for _, a := range addrs {
		n.addrs[host] = append(n.addrs[host], netip.MustParseAddr(a))
	}
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.asked++
	addrs, slow := n.addrs[host], n.slow[host]
	n.mu.Unlock()
	if slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if addrs == nil {
		return nil, errors.New("no such host")
	}
	return addrs, nil
}

func TestStaticPassesSourceSuite(t *testing.T) {
	hosts := map[string]string{"7001": "one.example", "7002": "two.example"}
	discoverytest.TestSource(t, func(t *testing.T) discoverytest.Rig {
		var dns names
		s, err := static.New(static.Config{Peers: []string{"one.example:7001", "two.example:7002"}, Resolver: &dns})
		if err != nil {
			t.Fatal(err)
		}
		return discoverytest.Rig{
			Source: s,
			Appear: func(a netip.AddrPort) {
				host := hosts[a.String()[strings.LastIndex(a.String(), ":")+1:]]
				dns.set(host, a.Addr().String())
			},
			Within: 31 * time.Second,
		}
	})
}

// run runs a source and returns a function that gives what was reported since its last call.
func run(t *testing.T, cfg static.Config) (*static.Source, func() []string) {
	s, err := static.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(sg discovery.Sighting) {
			line := sg.Key
			if sg.URL != "" {
				line += " " + sg.URL
			}
			for _, a := range sg.Addrs {
				line += " " + a.String()
			}
			said = append(said, line)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s, func() []string {
		synctest.Wait()
		got := said
		said = nil
		return got
	}
}

func TestAddressesAreReportedWithoutALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dns names
		_, said := run(t, static.Config{Peers: []string{"10.0.0.7:1", "[fd00::7]:2", "10.0.0.7:1"}, Resolver: &dns})
		if diff := cmp.Diff([]string{"10.0.0.7:1 10.0.0.7:1", "[fd00::7]:2 [fd00::7]:2"}, said()); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		if got := said(); got != nil || dns.asked != 0 {
			t.Errorf("reported %v after %d look-ups, want nothing, none", got, dns.asked)
		}
	})
}

func TestURLIsReportedWithoutALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dns names
		const url = "wss://kitchen.example/symbio"
		_, said := run(t, static.Config{Peers: []string{url, url}, Resolver: &dns})
		if diff := cmp.Diff([]string{url + " " + url}, said()); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		if got := said(); got != nil || dns.asked != 0 {
			t.Errorf("reported %v after %d look-ups, want nothing, none", got, dns.asked)
		}
	})
}

func TestNamesAreLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dns names
		dns.set("kitchen", "10.0.0.1", "10.0.0.2")
		s, said := run(t, static.Config{Peers: []string{"kitchen:7"}, Resolver: &dns})
		steps := []struct {
			name  string
			addrs []string
			want  []string
		}{
			{"at the start", []string{"10.0.0.1", "10.0.0.2"}, []string{"kitchen:7 10.0.0.1:7 10.0.0.2:7"}},
			{"in another order", []string{"10.0.0.2", "10.0.0.1"}, nil},
			{"a failed look-up loses nothing", nil, nil},
			{"the same again", []string{"10.0.0.1", "10.0.0.2"}, nil},
			{"moved", []string{"::ffff:10.0.0.3", "10.0.0.3"}, []string{"kitchen:7 10.0.0.3:7"}},
		}
		for i, step := range steps {
			dns.set("kitchen", step.addrs...)
			if i > 0 {
				time.Sleep(30 * time.Second)
			}
			if diff := cmp.Diff(step.want, said()); diff != "" {
				t.Errorf("%s: reported (-want +got):\n%s", step.name, diff)
			}
			if err := s.Health(); (err != nil) != (step.addrs == nil) {
				t.Errorf("%s: health is %v", step.name, err)
			}
		}
	})
}

func TestSlowNameDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := names{slow: map[string]bool{"tortoise": true}}
		dns.set("hare", "10.0.0.1")
		_, said := run(t, static.Config{Peers: []string{"tortoise:7", "hare:7", "10.0.0.9:7"}, Resolver: &dns})
		if diff := cmp.Diff([]string{"10.0.0.9:7 10.0.0.9:7", "hare:7 10.0.0.1:7"}, said()); diff != "" {
			t.Errorf("reported before the slow name's time was up (-want +got):\n%s", diff)
		}
	})
}

func TestFailedDialLooksUpAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dns names
		dns.set("kitchen", "10.0.0.1")
		s, said := run(t, static.Config{Peers: []string{"kitchen:7"}, Resolver: &dns})
		said()
		dns.set("kitchen", "10.0.0.2")
		for range 100 {
			s.Reconfirm("kitchen:7")
			time.Sleep(20 * time.Millisecond)
		}
		if diff := cmp.Diff([]string{"kitchen:7 10.0.0.2:7"}, said()); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if dns.asked > 4 {
			t.Errorf("%d look-ups in 2s, want at most one a second", dns.asked)
		}
	})
}

func TestNewNamesTheEntryThatIsWrong(t *testing.T) {
	for _, entry := range []string{
		"", "kitchen", "kitchen:", "kitchen:0", "kitchen:65536", "kitchen:http", ":7946", "fd00::7:7946", "[fd00::7]",
		"0.0.0.0:7", "[::]:7", "224.0.0.251:7", "kit chen:7", "kit\x1bchen:7", "a..b:7", "http://kitchen:7", "wss://", "wss:///symbio", "wss://a..b/",
		"wss://user:x@kitchen/", "wss://kitchen:0/", "wss://kitchen/#x", "://", "ws://kit\x1bchen/", strings.Repeat("a", 64) + ":7",
	} {
		_, err := static.New(static.Config{Peers: []string{"10.0.0.1:7", entry}})
		if err == nil {
			t.Errorf("New accepts %q, want an error", entry)
			continue
		}
		if want := "static: peer "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%q): %q, want it to begin with %q", entry, err, want)
		}
	}
	for _, entry := range []string{"kitchen:7", "kitchen.example.:7", "10.0.0.7:65535", "[fe80::1%eth0]:7", "k8s_svc:1", "ws://kitchen",
		"wss://kitchen.example:8443/a/b?c=d", "wss://[fd00::7]/", "ws://10.0.0.7:80/"} {
		if _, err := static.New(static.Config{Peers: []string{entry}}); err != nil {
			t.Errorf("New(%q): %v, want none", entry, err)
		}
	}
	if _, err := static.New(static.Config{Peers: make([]string, 257)}); err == nil {
		t.Error("New accepts 257 peers, want an error")
	}
}

func FuzzEntries(f *testing.F) {
	for _, s := range []string{"10.0.0.7:7946", "[fd00::7]:1", "kitchen:7", "a:b:c", "[::1%lo]:9", "[fe80::1%\x1b]:9", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		_, err := static.New(static.Config{Peers: []string{entry}})
		if err == nil && strings.ContainsFunc(entry, func(r rune) bool { return r < ' ' }) {
			t.Errorf("New accepts %q, which holds a control character", entry)
		}
	})
}

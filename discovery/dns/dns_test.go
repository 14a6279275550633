package dns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/discovery"
	"symbio/discovery/dns"
	"symbio/internal/discovery/discoverytest"
	"symbio/internal/discovery/lookup"
)

// zone is a resolver in memory. A name it does not have does not exist.
type zone struct {
	mu    sync.Mutex
	hosts map[string][]string // guarded by mu
	srv   map[string][]string // guarded by mu; "target:port"
	fails map[string]error    // guarded by mu; names whose look-up fails
	asked int                 // guarded by mu
}

func (z *zone) set(f func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f()
}

func (z *zone) find(ctx context.Context, in map[string][]string, name string) ([]string, error) {
	z.mu.Lock()
	z.asked++
	err, found := z.fails[name], in[name]
	z.mu.Unlock()
	if errors.Is(err, errSlow) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

var errSlow = errors.New("slow")

func (z *zone) LookupNetIP(ctx context.Context, _, host string) (out []netip.Addr, err error) {
	found, err := z.find(ctx, z.hosts, host)
	for _, a := range found {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, err
}

func (z *zone) LookupSRV(ctx context.Context, service, proto, name string) (_ string, out []*net.SRV, err error) {
	if service+proto != "" {
		return "", nil, fmt.Errorf("looked up with service %q and proto %q", service, proto)
	}
	found, err := z.find(ctx, z.srv, name)
	for _, r := range found {
		host, port, err := net.SplitHostPort(r)
		if err != nil {
			return "", nil, err
		}
		var n uint16
		if _, err := fmt.Sscan(port, &n); err != nil {
			return "", nil, err
		}
		out = append(out, &net.SRV{Target: host, Port: n})
	}
	return name, out, err
}

// check returns what is wrong with an entry of Config.Names.
func check(name string) error {
	_, err := dns.New(dns.Config{Names: []string{name}})
	return err
}

const pods = "_symbio._tcp.pods.example"

func TestHostNamesPassSourceSuite(t *testing.T) {
	names := map[uint16]string{7001: "one.example", 7002: "two.example"}
	discoverytest.TestSource(t, func(t *testing.T) discoverytest.Rig {
		z := &zone{hosts: map[string][]string{}}
		return discoverytest.Rig{
			Source: open(t, dns.Config{Names: []string{"one.example:7001", "two.example:7002"}, Resolver: z}),
			Appear: func(a netip.AddrPort) {
				z.set(func() { z.hosts[names[a.Port()]] = []string{a.Addr().String()} })
			},
			Vanish: func(a netip.AddrPort) { z.set(func() { delete(z.hosts, names[a.Port()]) }) },
			Within: 21 * time.Second,
		}
	})
}

func TestSRVNamesPassSourceSuite(t *testing.T) {
	discoverytest.TestSource(t, func(t *testing.T) discoverytest.Rig {
		z := &zone{hosts: map[string][]string{}, srv: map[string][]string{}}
		target := func(a netip.AddrPort) string { return fmt.Sprintf("pod-%d.pods.example:%d", a.Port(), a.Port()) }
		return discoverytest.Rig{
			Source: open(t, dns.Config{Names: []string{pods}, Resolver: z}),
			Appear: func(a netip.AddrPort) {
				z.set(func() {
					z.srv[pods] = append(z.srv[pods], target(a))
					z.hosts[strings.Split(target(a), ":")[0]] = []string{a.Addr().String()}
				})
			},
			Vanish: func(a netip.AddrPort) {
				z.set(func() {
					var left []string
					for _, r := range z.srv[pods] {
						if r != target(a) {
							left = append(left, r)
						}
					}
					z.srv[pods] = left
				})
			},
			Within: 21 * time.Second,
		}
	})
}

func open(t *testing.T, cfg dns.Config) *lookup.Source {
	s, err := dns.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a source and returns a function that gives what was reported since its last call.
func run(t *testing.T, s *lookup.Source) func() []string {
	var said []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(sg discovery.Sighting) {
			line := sg.Key
			if sg.Gone {
				line = "gone: " + line
			}
			for _, a := range sg.Addrs {
				line += " " + a.String()
			}
			said = append(said, line)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() []string {
		synctest.Wait()
		got := said
		said = nil
		return got
	}
}

// turn is how often a source looks.
const turn = 10 * time.Second

func TestPeerIsLostOnlyByTwoAnswersInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, two = "10.0.0.1:7 of kitchen:7", "10.0.0.2:7 of kitchen:7"
		z := &zone{hosts: map[string][]string{}, fails: map[string]error{}}
		s := open(t, dns.Config{Names: []string{"kitchen:7"}, Resolver: z})
		var said func() []string
		for i, step := range []struct {
			name  string
			addrs []string
			err   error
			want  []string
		}{
			{"at the start", []string{"10.0.0.1", "10.0.0.2"}, nil, []string{one + " 10.0.0.1:7", two + " 10.0.0.2:7"}},
			{"in another order", []string{"10.0.0.2", "10.0.0.1"}, nil, nil},
			{"missing once", []string{"10.0.0.2"}, nil, nil},
			{"back", []string{"10.0.0.2", "10.0.0.1"}, nil, nil},
			{"missing once more", []string{"10.0.0.2"}, nil, nil},
			{"a failed look-up is no answer", nil, errors.New("server misbehaving"), nil},
			{"nor is a second", nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}, nil},
			{"missing for the second time", []string{"10.0.0.2"}, nil, []string{"gone: " + one}},
			{"another comes", []string{"10.0.0.2", "::ffff:10.0.0.1"}, nil, []string{one + " 10.0.0.1:7"}},
			{"that there is nothing is an answer", nil, nil, nil},
			{"the second", nil, nil, []string{"gone: " + one, "gone: " + two}},
		} {
			z.set(func() { z.hosts["kitchen"], z.fails["kitchen"] = step.addrs, step.err })
			if i == 0 {
				said = run(t, s)
			} else {
				time.Sleep(turn)
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

func TestPartialServiceKeepsKnownPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{
			srv:   map[string][]string{pods: {"a.example.:1", "b.example:2", "A.example:1", ".:3", "b.example:0", "bad\x1b.example:4"}},
			hosts: map[string][]string{"a.example.": {"10.0.0.1", "fd00::1", "10.0.0.1"}, "b.example": {"10.0.0.2"}},
			fails: map[string]error{},
		}
		s := open(t, dns.Config{Names: []string{pods}, Resolver: z})
		said := run(t, s)
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, said()); diff != "" {
				t.Errorf("%s: reported (-want +got):\n%s", when, diff)
			}
		}
		const a, b = "a.example:1 of " + pods, "b.example:2 of " + pods
		expect("at the start", a+" 10.0.0.1:1 [fd00::1]:1", b+" 10.0.0.2:2")

		z.set(func() { z.fails["b.example"] = errors.New("server misbehaving") })
		time.Sleep(3 * turn)
		expect("while a target's addresses cannot be looked up")
		if err := s.Health(); err == nil || !strings.Contains(err.Error(), "b.example") {
			t.Errorf("health is %v, want what is wrong with b.example", err)
		}
		z.set(func() { delete(z.fails, "b.example"); z.hosts["b.example"] = nil })
		time.Sleep(2 * turn)
		expect("when a target has no address any more", "gone: "+b)
		z.set(func() { z.hosts["b.example"] = []string{"10.0.0.3"} })
		time.Sleep(turn)
		expect("when it has another", b+" 10.0.0.3:2")
		if err := s.Health(); err != nil {
			t.Errorf("health is %v, want none", err)
		}
	})
}

func TestSlowNameDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string][]string{"hare": {"10.0.0.1"}}, fails: map[string]error{"tortoise": errSlow}}
		said := run(t, open(t, dns.Config{Names: []string{"tortoise:7", "hare:7"}, Resolver: z}))
		if diff := cmp.Diff([]string{"10.0.0.1:7 of hare:7 10.0.0.1:7"}, said()); diff != "" {
			t.Errorf("reported before the slow name's time was up (-want +got):\n%s", diff)
		}
	})
}

func TestFailedDialLooksUpAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string][]string{"kitchen": {"10.0.0.1"}}}
		s := open(t, dns.Config{Names: []string{"kitchen:7"}, Resolver: z})
		said := run(t, s)
		said()
		z.set(func() { z.hosts["kitchen"] = []string{"10.0.0.2"} })
		for range 100 {
			s.Reconfirm("10.0.0.1:7 of kitchen:7")
			time.Sleep(20 * time.Millisecond)
		}
		want := []string{"10.0.0.2:7 of kitchen:7 10.0.0.2:7", "gone: 10.0.0.1:7 of kitchen:7"}
		if diff := cmp.Diff(want, said()); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if z.asked > 4 {
			t.Errorf("%d look-ups in 2s, want at most one a second", z.asked)
		}
	})
}

func TestNameServerCannotFloodTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{srv: map[string][]string{}, hosts: map[string][]string{"small": {"10.9.9.9"}}}
		for i := range 1000 {
			host := fmt.Sprintf("pod-%03d.example", i)
			z.srv[pods] = append(z.srv[pods], host+":7")
			for j := range 100 {
				z.hosts[host] = append(z.hosts[host], fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j+1))
			}
		}
		said := run(t, open(t, dns.Config{Names: []string{pods}, Resolver: z}))
		got := said()
		if len(got) != 512 {
			t.Errorf("1000 targets made %d peers, want 512", len(got))
		}
		for _, line := range got[:1] {
			if n := strings.Count(line, ":7") - 1; n != discovery.MaxAddrs {
				t.Errorf("100 addresses made %d, want %d", n, discovery.MaxAddrs)
			}
		}
		if z.asked > 513 {
			t.Errorf("%d look-ups, want no more than peers", z.asked)
		}
	})
}

// 300 targets whose names are not answered do not take the time of the one that is there.
func TestDeadTargetsDoNotDelayTheLivingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{srv: map[string][]string{}, hosts: map[string][]string{"living.example": {"10.0.0.1"}}, fails: map[string]error{}}
		for i := range 300 {
			host := fmt.Sprintf("dead-%03d.example", i)
			z.srv[pods] = append(z.srv[pods], host+":7")
			z.fails[host] = errSlow
		}
		z.srv[pods] = append(z.srv[pods], "living.example:7")
		said := run(t, open(t, dns.Config{Names: []string{pods}, Resolver: z}))
		time.Sleep(6 * time.Second)
		want := []string{"10.0.0.1:7", "living.example:7"}
		if got := said(); len(got) != 1 || !strings.Contains(got[0], want[0]) || !strings.Contains(got[0], want[1]) {
			t.Errorf("reported %q after 6s, want living.example", got)
		}
	})
}

func TestNewNamesTheEntryThatIsWrong(t *testing.T) {
	for _, entry := range []string{
		"", "kitchen", "kitchen:", "kitchen:0", "kitchen:65536", "kitchen:http", ":7946", "kit chen:7", "kit\x1bchen:7", "a..b:7",
		"10.0.0.7:7", "[fd00::7]:7", "[fe80::1%\x1b]:7", "http://kitchen:7",
		"_symbio._tcp", "_symbio._tcp.", "_symbio._udp.example", "_symbio.example.com", "_._tcp.example", "_symbio._tcp.example:7946", "_symbio._tcp..example",
	} {
		_, err := dns.New(dns.Config{Names: []string{"kitchen:7", entry}})
		if err == nil {
			t.Errorf("New accepts %q, want an error", entry)
			continue
		}
		if want := fmt.Sprintf("dns: name %q: ", entry); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%q): %q, want it to begin with %q", entry, err, want)
		}
		if check(entry) == nil {
			t.Errorf("check(%q) = nil, want an error", entry)
		}
	}
	for _, entry := range []string{"kitchen:7", "kitchen.example.:7", "k8s_svc:1", "_symbio._tcp.example", "_symbio._TCP.symbio.default.svc.cluster.local."} {
		if err := check(entry); err != nil {
			t.Errorf("check(%q): %v, want none", entry, err)
		}
	}
	if _, err := dns.New(dns.Config{Names: make([]string, 65)}); err == nil {
		t.Error("New accepts 65 names, want an error")
	}
}

func TestLookUpAnswersOnce(t *testing.T) {
	z := &zone{hosts: map[string][]string{"kitchen": {"10.0.0.1", "10.0.0.2"}}}
	peers, wrong, err := dns.LookUp(t.Context(), dns.Config{Names: []string{"kitchen:7", pods}, Resolver: z})
	if err != nil {
		t.Fatal(err)
	}
	if len(peers["kitchen:7"]) != 2 || wrong["kitchen:7"] != nil {
		t.Errorf("kitchen:7 = %v (%v), want two peers", peers["kitchen:7"], wrong["kitchen:7"])
	}
	if len(peers[pods]) != 0 || wrong[pods] == nil {
		t.Errorf("%s = %v (%v), want nobody and why", pods, peers[pods], wrong[pods])
	}
	if len(wrong) != 1 {
		t.Errorf("wrong = %v, want only what is", wrong)
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"kitchen:7946", "_symbio._tcp.example", "[fd00::7]:1", "a:b:c", "_a._tcp.\x1b", "_._tcp.x",
		"_a._tcp.b:1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := check(name)
		if err == nil && strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("Check accepts %q, which holds what cannot be in a name", name)
		}
		if _, newErr := dns.New(dns.Config{Names: []string{name}}); (newErr == nil) != (err == nil) {
			t.Errorf("New(%q) says %v, Check says %v", name, newErr, err)
		}
	})
}

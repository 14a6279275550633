package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm/provider"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/discovery/mdns"
	"symbio/internal/agent/node/exec"
	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// healthy is a world in which nothing is wrong. Nothing in it leaves this process.
func healthy(t *testing.T) *World {
	dir := t.TempDir()
	return &World{
		Options: node.Config{Settings: config.Default(), State: statedir.Dir(filepath.Join(dir, "state")), Dir: dir, Home: dir,
			Getenv: func(string) string { return "" }},
		Now:   func() time.Time { return noon },
		Built: noon.Add(-time.Hour),
		Survey: func(cfg mdns.Config) ([]mdns.Interface, error) {
			lan := []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}
			return []mdns.Interface{
				{Name: "lo", Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}, Loopback: true, Used: cfg.Loopback, Why: "not that one"},
				{Name: "eth0", Addrs: lan, Used: !cfg.Loopback, Why: "the node listens on loopback only"},
			}, nil
		},
		SelfTest:  func(context.Context, mdns.Config) (time.Duration, error) { return time.Millisecond, nil },
		MDNSPort:  func() (v4, v6 error) { return nil, nil },
		Listen:    func(string) error { return nil },
		Dial:      func(context.Context, string) error { return nil },
		Resolver:  names{},
		Authority: func() (begins, ends time.Time, err error) { return noon.Add(-time.Hour), noon.AddDate(9, 0, 0), nil },
		Reach:     func(_ context.Context, spec string) (string, error) { return "openai:m", nil },
		Kept:      func(context.Context, *permission.FileDenials) (string, bool) { return "", true },
		Sandbox:   func(context.Context) sandbox.Status { return sandbox.Status{Level: sandbox.Native} },
		Looks:     func(context.Context) error { return nil },
		Member:    func() error { return nil },
		Refusing:  func(context.Context) ([]exec.Refusal, error) { return nil, nil },
	}
}

// names is a resolver in memory: what it does not have does not exist.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	for _, a := range n[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, err
}

func (n names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	var out []*net.SRV
	for _, target := range n[name] {
		out = append(out, &net.SRV{Target: target, Port: 7})
	}
	return name, out, nil
}

// refuse is a Dial or a SelfTest that fails for what is named.
func refuse(named ...string) func(context.Context, string) error {
	return func(_ context.Context, addr string) error {
		for _, n := range named {
			if strings.Contains(addr, n) {
				return errors.New("connection refused")
			}
		}
		return nil
	}
}

type peer = symbiov1.Node

func running(peers ...*peer) []Node {
	self := &peer{Id: "a1", Name: "a", State: "self", CertDays: 6}
	return []Node{{Name: "a", Status: &symbiov1.StatusReply{Listen: "127.0.0.1:7"}, Peers: append([]*peer{self}, peers...)}}
}

func TestDoctorFindsFaultAndNamesRemedy(t *testing.T) {
	lan := func(w *World) { w.Options.Settings.Node.Listen, w.Clustered = "0.0.0.0:7946", true }
	bad := errors.New("it is broken")
	for _, test := range []struct {
		check string
		name  string
		set   func(w *World)
		// want is a line for each finding: its status, then words of its detail in order, then of its fix.
		want []string
	}{
		{"configuration", "in order", nil, []string{"ok"}},
		{"configuration", "a wrong line", func(w *World) { w.BadConfig = errors.New("symbio.yaml: line 2: unknown key nmae") }, []string{"fail|line 2: unknown key nmae|correct the line"}},
		{"node", "none", nil, []string{"ok|no node is running"}},
		{"node", "running", func(w *World) { w.Nodes = running() }, []string{"ok|node a is running"}},
		{"node", "asked for and not running", func(w *World) { w.Wanted = "b" }, []string{"warn|node b is not running|symbio up --name b"}},
		{"node", "frozen", func(w *World) { w.Nodes = []Node{{Name: "a", Err: bad}} }, []string{"fail|does not answer: it is broken|symbio up --name a"}},

		{"interface", "loopback only", nil, []string{"ok|lo 127.0.0.1/8: used", "ok|eth0 10.0.0.5/24: not used: the node listens on loopback only"}},
		{"interface", "on a LAN", lan, []string{"ok|lo", "ok|eth0 10.0.0.5/24: used"}},
		{"interface", "none for a LAN", func(w *World) { lan(w); w.Survey = only(mdns.Interface{Name: "lo", Loopback: true, Used: true}) }, []string{"ok|lo", "fail|other machines|discovery.interfaces"}},
		{"interface", "none at all", func(w *World) { w.Survey = only() }, []string{"fail|no loopback|ip link set lo up"}},
		{"interface", "none, and none is needed", func(w *World) { w.Survey = only(); w.Options.Settings.Discovery.MDNS = false }, nil},
		{"interface", "unknown", func(w *World) { w.Survey = func(mdns.Config) ([]mdns.Interface, error) { return nil, bad } }, []string{"fail|it is broken|list network interfaces"}},

		{"multicast", "on loopback", nil, []string{"ok|lo: what is sent is heard, after 1.0 ms"}},
		{"multicast", "on a LAN", lan, []string{"ok|eth0"}},
		{"multicast", "not heard", func(w *World) {
			w.SelfTest = func(context.Context, mdns.Config) (time.Duration, error) { return 0, bad }
		}, []string{"fail|lo: it is broken|firewall pass UDP port 5353 on lo"}},
		{"multicast", "off", func(w *World) { w.Options.Settings.Discovery.MDNS = false }, []string{"ok|off"}},

		{"mdns-port", "shared", nil, []string{"ok|can be shared"}},
		{"mdns-port", "held alone", port(bad, bad), []string{"fail|it is broken|ss -ulpn"}},
		{"mdns-port", "held alone on IPv4", port(bad, nil), []string{"warn|IPv6 only: it is broken|ss -ulpn"}},
		{"mdns-port", "no IPv6", port(nil, bad), []string{"ok|no IPv6"}},
		{"mdns-port", "off", func(w *World) { port(bad, bad)(w); w.Options.Settings.Discovery.MDNS = false }, []string{"ok|not needed"}},

		{"listen", "free", nil, []string{"ok|127.0.0.1:0"}},
		{"listen", "taken", func(w *World) { w.Listen = func(string) error { return bad } }, []string{"fail|127.0.0.1:0: it is broken|--listen"}},
		{"listen", "beyond loopback without a cluster", func(w *World) { w.Options.Settings.Node.Listen = "0.0.0.0:7946" }, []string{"fail|certificate of a cluster|symbio cluster join TOKEN ADDRESS"}},
		{"listen", "beyond loopback in a cluster", lan, []string{"ok|0.0.0.0:7946"}},
		{"listen", "a running node", func(w *World) { w.Nodes = running() }, []string{"ok|node a answers on 127.0.0.1:7"}},
		{"listen", "a running node that does not answer", func(w *World) { w.Nodes = running(); w.Dial = refuse("127.0.0.1:7") }, []string{"fail|connection refused|firewall"}},

		{"listen", "WebSockets", webSocketAt, []string{"ok|127.0.0.1:0", "ok|here can accept WebSockets at ws://127.0.0.1:8080/symbio"}},
		{"listen", "WebSockets at a port that is taken", func(w *World) { webSocketAt(w); w.Listen = refuseAt("127.0.0.1:8080") }, []string{"ok|127.0.0.1:0", "fail|could not accept WebSockets at ws://127.0.0.1:8080/symbio: it is broken|node.websocket"}},
		{"listen", "WebSockets of a running node", func(w *World) { webSocketAt(w); w.Nodes = running() }, []string{"ok|node a answers", "ok|WebSockets are accepted at ws://127.0.0.1:8080/symbio"}},
		{"listen", "WebSockets of a node that began without", func(w *World) { webSocketAt(w); w.Nodes = running(); w.Dial = refuse(":8080/symbio") }, []string{"ok|node a answers", "warn|no node accepts WebSockets at ws://127.0.0.1:8080/symbio: connection refused|restart the node"}},

		{"peer", "none", nil, nil},
		{"peer", "here", namedPeers("127.0.0.1:7", "[::1]:7"), []string{"ok|127.0.0.1:7 answers", "ok|[::1]:7 answers"}},
		{"peer", "not running", func(w *World) { namedPeers("127.0.0.1:7")(w); w.Dial = refuse(":7") }, []string{"fail|127.0.0.1:7 does not answer: connection refused|symbio up"}},
		{"peer", "a URL", namedPeers("wss://localhost/symbio"), []string{"ok|wss://localhost/symbio answers, after"}},
		{"peer", "a URL behind which nothing runs", func(w *World) {
			lan(w)
			namedPeers("wss://kitchen/symbio")(w)
			w.Dial = func(context.Context, string) error {
				return &net.OpError{Err: errors.New("HTTP 502 Bad Gateway: the proxy does not reach it; start it")}
			}
		}, []string{"fail|wss://kitchen/symbio does not open: HTTP 502 Bad Gateway: the proxy does not reach it|start it"}},
		{"peer", "a URL of another machine without a cluster", namedPeers("ws://10.0.0.7/symbio"), []string{"fail|ws://10.0.0.7/symbio is on another machine|symbio cluster join"}},
		{"peer", "unknown name", func(w *World) { lan(w); namedPeers("kitchen:7")(w) }, []string{"fail|kitchen:7: its name cannot be looked up|discovery.peers"}},
		{"peer", "by name, at its second address", func(w *World) {
			lan(w)
			namedPeers("kitchen:7")(w)
			w.Resolver, w.Dial = names{"kitchen": {"10.0.0.7", "10.0.0.8"}}, refuse("10.0.0.7")
		}, []string{"ok|kitchen:7 answers at 10.0.0.8:7"}},
		{"peer", "on another machine, without a cluster", namedPeers("10.0.0.7:7"), []string{"fail|without a cluster|symbio cluster join TOKEN ADDRESS"}},

		{"dns", "a group", func(w *World) {
			lan(w)
			group(w, "_symbio._tcp.pods")
			w.Resolver = names{"_symbio._tcp.pods": {"pod-0", "pod-1"}, "pod-0": {"10.0.0.7"}, "pod-1": {"10.0.0.8"}}
		}, []string{"ok|pod-0:7", "ok|pod-1:7"}},
		{"dns", "a group that is not whole", func(w *World) {
			lan(w)
			group(w, "_symbio._tcp.pods")
			w.Resolver, w.Dial = names{"_symbio._tcp.pods": {"pod-0", "pod-1"}, "pod-0": {"10.0.0.7"}, "pod-1": {"10.0.0.8"}}, refuse("10.0.0.8")
		}, []string{"ok|pod-0:7", "warn|pod-1:7 of _symbio._tcp.pods does not answer|symbio up"}},
		{"dns", "a group of which nobody answers", func(w *World) {
			lan(w)
			group(w, "pods:7")
			w.Resolver, w.Dial = names{"pods": {"10.0.0.7"}}, refuse("10.0.0.7")
		}, []string{"fail|does not answer|symbio up"}},
		{"dns", "a name that nobody knows", func(w *World) { group(w, "pods:7") }, []string{"fail|pods:7: lookup pods: no such host|discovery.dns"}},

		{"discovery", "no node", nil, nil},
		{"discovery", "one that works and one that does not", func(w *World) {
			w.Nodes = running()
			w.Nodes[0].Status.Sources = []*symbiov1.SourceHealth{{Name: "mdns", Problems: []string{"eth0: it is broken", "wlan0: it is broken"}}, {Name: "introduced"}}
		}, []string{"warn|mdns as it should: eth0: it is broken|--peer", "warn|wlan0: it is broken|--peer", "ok|node a finds others by introduced"}},
		{"seen", "nobody", nil, nil},
		{"seen", "reached over what it opened", func(w *World) {
			w.Nodes = running(&peer{Name: "b", State: "connected", Via: new("reversed"), Addr: "10.0.0.7:40000", CertDays: 6})
		}, []string{"ok|reaches b at 10.0.0.7:40000 over a connection that the other opened", "ok|1 other"}},
		{"seen", "introduced and not reachable", func(w *World) {
			w.Nodes = running(&peer{Id: "b1", State: "unavailable", Addr: "10.0.0.7:7", Why: new("no route to host"), Sources: []string{"mdns", "introduced"}})
		}, []string{"warn|sees b1 at 10.0.0.7:7 (by mdns, introduced) and cannot reach it|firewall", "ok"}},
		{"seen", "stopped", func(w *World) {
			w.Nodes = running(&peer{Id: "b1", State: "unavailable", Addr: "10.0.0.7:7", Why: new("dial: connection refused"), Sources: []string{"introduced"}})
		}, []string{"ok|knows b1 at 10.0.0.7:7 from before, which does not run now", "ok"}},
		{"seen", "everybody is well", func(w *World) {
			w.Nodes = running(&peer{Name: "b", State: "connected", CertDays: 6}, &peer{Name: "c", State: "left"})
		}, []string{"ok|connected to 1 other"}},
		{"seen", "not reachable", func(w *World) {
			w.Nodes = running(&peer{Name: "b", State: "unavailable", Addr: "10.0.0.7:7", Why: new("no route to host")})
		}, []string{"warn|sees b at 10.0.0.7:7 and cannot reach it: no route to host|firewall", "ok|0 other"}},
		{"seen", "refused", func(w *World) {
			w.Nodes = running(&peer{State: "refused", Addr: "10.0.0.7", Why: new("another authority")})
		}, []string{"warn|an unknown node at 10.0.0.7 and they refuse each other: another authority|symbio cluster join", "ok"}},
		{"seen", "refused, with a remedy of its own", func(w *World) {
			w.Nodes = running(&peer{Name: "b", State: "refused", Addr: "10.0.0.7", Why: new("its certificate has expired: it ended at 9; set the clock here if it is ahead")})
		}, []string{"warn|b at 10.0.0.7 and they refuse each other: its certificate has expired: it ended at 9|set the clock here", "ok"}},
		{"seen", "incompatible", func(w *World) {
			w.Nodes = running(&peer{Id: "b1", State: "incompatible", Addr: "10.0.0.7:7", Why: new("2.0")})
		}, []string{"warn|b1 at 10.0.0.7:7|symbio version", "ok"}},

		{"certificate", "in order", func(w *World) { w.Nodes = running() }, []string{"ok|node a's certificate ends in 6 days", "ok|2035"}},
		{"certificate", "near its end", func(w *World) { w.Nodes = running(&peer{Name: "b", State: "connected", CertDays: 1}) }, []string{"ok", "warn|b, connected|ends in 1 day|holds its authority", "ok"}},
		{"certificate", "in its last day", func(w *World) { w.Nodes = running(&peer{Name: "b", State: "connected"}) }, []string{"ok", "warn|ends in less than a day", "ok"}},
		{"certificate", "over", func(w *World) { w.Nodes = running(); w.Nodes[0].Peers[0].CertDays = -1 }, []string{"warn|certificate has ended", "ok"}},
		{"certificate", "removed", func(w *World) {
			w.Member = func() error { return errors.New("it was removed; to take it back: symbio cluster leave") }
		}, []string{"fail|it was removed|symbio cluster leave", "ok"}},
		{"certificate", "removed, as others say", func(w *World) {
			w.Nodes = running()
			w.Nodes[0].Peers[0].Why = new("greet 10.0.0.7:7: it was removed; to take it back: symbio cluster leave")
		}, []string{"fail|other nodes refuse node a: greet 10.0.0.7:7: it was removed|symbio cluster leave", "ok", "ok"}},
		{"certificate", "none yet", authority(time.Time{}, time.Time{}, fs.ErrNotExist), []string{"ok|no authority"}},
		{"certificate", "the authority is near its end", authority(noon.AddDate(-9, 0, 0), noon.AddDate(0, 0, 20), nil), []string{"warn|ends on 2026-07-21|move that file away"}},
		{"certificate", "the authority cannot be used", authority(time.Time{}, time.Time{}, bad), []string{"fail|it is broken|move that file away"}},

		{"clock", "in order", nil, []string{"ok|2026-07-01T12:00:00Z"}},
		{"clock", "before the authority", authority(noon.Add(time.Hour), noon.AddDate(9, 0, 0), bad), []string{"fail|made at 2026-07-01T13:00:00Z|timedatectl"}},
		{"clock", "before the program", func(w *World) { w.Built = noon.AddDate(0, 1, 0) }, []string{"fail|made at 2026-08-01|timedatectl"}},
		{"clock", "nothing is known", func(w *World) { w.Built = time.Time{}; authority(time.Time{}, time.Time{}, fs.ErrNotExist)(w) }, []string{"ok"}},

		{"model", "found", nil, []string{"ok|auto is openai:m"}},
		{"model", "none", reach("", fmt.Errorf("%w: no key\nSet one", provider.ErrNone)), []string{"warn|no model found: no key|Set one"}},
		{"model", "not listed", reach("openai:m", provider.ErrUnlisted), []string{"warn|does not list|name"}},
		{"model", "of another node", reach("", fmt.Errorf("peer:a/b: %w", provider.ErrElsewhere)), []string{"ok|auto is asked of another node|"}},
		{"model", "not reachable", reach("", bad), []string{"fail|auto cannot be used: it is broken|OPENAI_BASE_URL"}},

		{"workspace", "readable", nil, []string{"ok"}},
		{"workspace", "not there", func(w *World) { w.Options.Settings.Workspace = "nowhere" }, []string{"fail|nowhere|--workspace"}},
		{"workspace", "another directory is not there", func(w *World) { w.Options.Settings.Directories = []string{"/no/such/dir"} }, []string{"ok", "fail|/no/such/dir|directories"}},

		{"sandbox", "in order", nil, []string{"ok|native, which covers all"}},
		{"sandbox", "with a gap that nobody can close", held(sandbox.Status{Level: sandbox.Native, Missing: []string{"this", "that"}}), []string{"ok|native; not covered: this; that"}},
		{"sandbox", "less than there could be", held(sandbox.Status{Level: sandbox.Landlock, Missing: []string{"this"}, Mend: "do so"}), []string{"warn|landlock+seccomp; not covered: this|do so"}},
		{"sandbox", "none", held(sandbox.Status{Missing: []string{"no command is run"}, Mend: "do so"}), []string{"warn|no sandbox|no command is run|do so"}},

		{"sandbox", "switched off", func(w *World) { w.Options.Settings.Sandbox.Preset = "off" }, []string{"ok", "warn|switches the sandbox off|security: workspace"}},
		{"sandbox", "workspace with the network", func(w *World) {
			w.Options.Settings.Permissions.Preset, w.Options.Settings.Sandbox.Network = "workspace", "full"
		}, []string{"ok", "warn|commands that change files are asked about|leave out network: full"}},
		{"sandbox", "workspace with all files", func(w *World) {
			w.Options.Settings.Permissions.Preset, w.Options.Settings.Sandbox.Preset = "workspace", "permissive"
		}, []string{"ok", "warn|commands that change files are asked about|preset: permissive"}},
		{"sandbox", "the network without workspace", func(w *World) { w.Options.Settings.Sandbox.Network = "full" }, []string{"ok"}},
		{"sandbox", "no look box", func(w *World) {
			w.Looks = func(context.Context) error { return errors.New("there is no box for them at the level none; do so") }
		}, []string{"ok", "warn|commands that only look are asked about: there is no box for them at the level none; do so|level native or bwrap"}},
		{"sandbox", "denied files are kept by the system", kept("kept by the system", true), []string{"ok", "ok|kept by the system"}},
		{"sandbox", "denied files are kept by reading", kept("kept by reading", false), []string{"ok", "warn|kept by reading|better level"}},
		{"sandbox", "a capability that it cannot hold", func(w *World) {
			w.Refusing = func(context.Context) ([]exec.Refusal, error) {
				return []exec.Refusal{{Capability: "backup", Why: "(level x): it could do that", Mend: "do so"}}, nil
			}
		}, []string{"ok", "fail|capability backup are refused: (level x): it could do that|do so"}},

		{"skill", "in order", nil, []string{"ok|no skill is left out"}},
		{"skill", "left out", func(w *World) {
			w.Options.Settings.Skills.Dirs = []string{filepath.Join(w.Options.Dir, "skills")}
			write(filepath.Join(w.Options.Dir, "skills", "broken", "SKILL.md"), "no front matter\n")
		}, []string{"warn|broken|symbio skills validate"}},
		{"skill", "left out by a node", func(w *World) {
			w.Nodes = running()
			problem := &symbiov1.SkillProblem{Path: "/x/SKILL.md", Message: "it is broken"}
			w.Nodes[0].Skills = &symbiov1.SkillsReply{Errors: []*symbiov1.SkillProblem{problem, problem}}
		}, []string{"warn|/x/SKILL.md: it is broken|symbio skills validate /x"}},
		{"skill", "left out below a path with a colon", func(w *World) {
			w.Nodes = running()
			w.Nodes[0].Skills = &symbiov1.SkillsReply{Errors: []*symbiov1.SkillProblem{{Path: "/x: y/z/SKILL.md", Message: "it is broken"}}}
		}, []string{"warn|/x: y/z/SKILL.md: it is broken|symbio skills validate /x: y/z"}},
		{"skill", "left out where the node does not answer", func(w *World) {
			w.Nodes = running()
			w.Options.Settings.Skills.Dirs = []string{filepath.Join(w.Options.Dir, "skills")}
			write(filepath.Join(w.Options.Dir, "skills", "broken", "SKILL.md"), "no front matter\n")
		}, []string{"warn|broken|symbio skills validate"}},
	} {
		t.Run(test.check+"/"+test.name, func(t *testing.T) {
			w := healthy(t)
			if test.set != nil {
				test.set(w)
			}
			compare(t, named(t, test.check)(t.Context(), w), test.want)
		})
	}
}

func named(t *testing.T, name string) func(context.Context, *World) []Finding {
	for _, c := range checks() {
		if c.name == name {
			return c.ask
		}
	}
	t.Fatalf("there is no check %q", name)
	return nil
}

func compare(t *testing.T, got []Finding, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("found %+v, want %d findings", got, len(want))
	}
	for i, f := range got {
		words := strings.Split(want[i], "|")
		if string(f.Status) != words[0] {
			t.Errorf("status %q, want %q: %+v", f.Status, words[0], f)
		}
		text := f.Detail + "\x00" + f.Fix
		for _, w := range words[1:] {
			_, rest, found := strings.Cut(text, w)
			if !found {
				t.Errorf("%+v does not say %q (after what comes before it)", f, w)
			}
			text = rest
		}
		if (f.Status == OK) != (f.Fix == "") {
			t.Errorf("%+v: a problem has a fix, and only a problem", f)
		}
		if strings.ContainsAny(f.Detail+f.Fix, "\n\t") {
			t.Errorf("%+v is more than one line", f)
		}
	}
}

func only(all ...mdns.Interface) func(mdns.Config) ([]mdns.Interface, error) {
	return func(mdns.Config) ([]mdns.Interface, error) { return all, nil }
}

func port(v4, v6 error) func(*World) {
	return func(w *World) { w.MDNSPort = func() (error, error) { return v4, v6 } }
}

func namedPeers(entries ...string) func(*World) {
	return func(w *World) { w.Options.Settings.Discovery.Peers = entries }
}

func webSocketAt(w *World) { w.Options.Settings.Node.WebSocket = "ws://127.0.0.1:8080/symbio" }

func refuseAt(addr string) func(string) error {
	return func(at string) error {
		if at == addr {
			return errors.New("it is broken")
		}
		return nil
	}
}

func group(w *World, name string) { w.Options.Settings.Discovery.DNS = []string{name} }

func authority(begins, ends time.Time, err error) func(*World) {
	return func(w *World) { w.Authority = func() (time.Time, time.Time, error) { return begins, ends, err } }
}

func reach(name string, err error) func(*World) {
	return func(w *World) { w.Reach = func(context.Context, string) (string, error) { return name, err } }
}

func kept(how string, bySystem bool) func(*World) {
	return func(w *World) {
		w.Kept = func(context.Context, *permission.FileDenials) (string, bool) { return how, bySystem }
	}
}

func held(s sandbox.Status) func(*World) {
	return func(w *World) { w.Sandbox = func(context.Context) sandbox.Status { return s } }
}

func write(file, text string) {
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		panic(err)
	}
}

func TestSecretThatOthersMayReadIsFound(t *testing.T) {
	if openToAll(t) {
		t.Skip("this system has no modes of files")
	}
	w := healthy(t)
	s := w.Options.State
	compare(t, state(t.Context(), w), []string{"ok"}) // nothing is there yet
	write(s.Node("a").Key(), "key")
	for _, dir := range []string{string(s), filepath.Dir(filepath.Dir(s.Node("a").Key())), filepath.Dir(s.Node("a").Key())} {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, state(t.Context(), w), []string{"ok"})
	if err := errors.Join(os.Chmod(s.Node("a").Key(), 0o640), os.Chmod(string(s), 0o770)); err != nil {
		t.Fatal(err)
	}
	compare(t, state(t.Context(), w), []string{"fail|(mode 0770)|chmod 700 " + string(s), "fail|(mode 0640)|chmod 600 " + s.Node("a").Key()})
	w.Options.State = statedir.Dir(filepath.Join(s.Node("a").Key(), "below a file"))
	compare(t, state(t.Context(), w), []string{"fail|below a file|", "fail|nothing can be recorded|"})
}

func openToAll(t *testing.T) bool {
	file := filepath.Join(t.TempDir(), "f")
	write(file, "")
	info, err := os.Stat(file)
	return err != nil || info.Mode().Perm() != 0o600
}

func TestStateThatCannotBeWrittenFails(t *testing.T) {
	w := healthy(t)
	w.Options.State = statedir.Dir(filepath.Join(t.TempDir(), "file")) // below which root, too, can make nothing
	write(string(w.Options.State), "")
	out := state(t.Context(), w)
	if i := slices.IndexFunc(out, func(f Finding) bool { return strings.Contains(f.Detail, "nothing can be recorded") }); i < 0 || out[i].Status != Fail {
		t.Errorf("found %+v", out)
	}
}

func TestHealthyWorldHasNothingToMend(t *testing.T) {
	w := healthy(t)
	found, err := Examine(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, f := range found {
		if f.Status != OK {
			t.Errorf("%+v in a world where nothing is wrong", f)
		}
		if len(order) == 0 || order[len(order)-1] != f.Check {
			order = append(order, f.Check)
		}
	}
	want := []string{"configuration", "node", "interface", "multicast", "mdns-port", "listen", "certificate", "clock", "model", "agent", "workspace", "sandbox", "lending", "state", "skill"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("the checks in order (-want +got):\n%s", diff)
	}
}

func TestDoctorGoesOnWhenCheckHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := healthy(t)
		w.Nodes = running()
		w.Options.Settings.Discovery.Peers = []string{"127.0.0.1:7", "127.0.0.2:7"}
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		w.Dial = func(ctx context.Context, _ string) error { return hang(ctx) }
		w.SelfTest = func(ctx context.Context, _ mdns.Config) (time.Duration, error) { return 0, hang(ctx) }
		w.Reach = func(ctx context.Context, _ string) (string, error) { return "", hang(ctx) }
		begun := time.Now()
		found, err := Examine(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > checkTimeout {
			t.Errorf("it took %v, want at most %v", took, checkTimeout)
		}
		failed := 0
		for _, f := range found {
			if f.Status == Fail {
				failed++
			}
		}
		if failed != 5 { // multicast, listen, two peers, the model
			t.Errorf("%d failed, want 5: %+v", failed, found)
		}
	})
}

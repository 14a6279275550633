package mdns

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"symbio/internal/community/waittest"

	"github.com/google/go-cmp/cmp"
)

func TestSurveyReportsUseOfEachInterface(t *testing.T) {
	const lan = net.FlagUp | net.FlagMulticast
	some := []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}
	all := []iface{
		{Interface: net.Interface{Index: 1, Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, prefixes: some},
		{Interface: net.Interface{Index: 2, Name: "eth0", Flags: lan}, prefixes: some},
		{Interface: net.Interface{Index: 3, Name: "eth1", Flags: net.FlagMulticast}, prefixes: some},
		{Interface: net.Interface{Index: 4, Name: "eth2", Flags: lan}},
		{Interface: net.Interface{Index: 5, Name: "tun0", Flags: lan | net.FlagPointToPoint}, prefixes: some},
		{Interface: net.Interface{Index: 6, Name: "ib0", Flags: net.FlagUp}, prefixes: some},
		{Interface: net.Interface{Index: 7, Name: "docker0", Flags: lan}, prefixes: some},
	}
	const (
		used, down, bare, point, dumb  = "used", "it is down", "it has no address", "it is a point-to-point link, such as a VPN", "it does not carry multicast"
		denied, unnamed, machine, home = "discovery.interfaces.deny names it", "discovery.interfaces.allow does not name it", "only nodes of this machine can be found on it", "the node listens on loopback only"
	)
	for name, test := range map[string]struct {
		cfg  Config
		want []string
	}{
		"all":           {Config{}, []string{machine, used, down, bare, point, dumb, used}},
		"deny":          {Config{Deny: []string{"docker*"}}, []string{machine, used, down, bare, point, dumb, denied}},
		"allow":         {Config{Allow: []string{"docker0"}}, []string{machine, unnamed, down, bare, point, dumb, used}},
		"nothing left":  {Config{Deny: []string{"*"}}, []string{used, denied, down, bare, point, dumb, denied}},
		"loopback only": {Config{Loopback: true}, []string{used, home, down, bare, home, home, home}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, i := range survey(all, test.cfg) {
				if i.Used && i.Why == "" {
					i.Why = "used"
				}
				got = append(got, i.Why)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("survey (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelfTestHearsItselfOnLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it uses real sockets on loopback")
	}
	if v4, _ := Port(); v4 != nil {
		t.Skipf("UDP port 5353 cannot be shared on this machine: %v", v4)
	}
	took, err := SelfTest(waittest.Context(t), Config{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("heard after %v", took)
}

func TestSelfTestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SelfTest(ctx, Config{Loopback: true}); err == nil {
		t.Error("SelfTest found itself before it began, want an error")
	}
}

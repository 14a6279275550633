package permission_test

import (
	"net/netip"
	"testing"

	"symbio/security/permission"
)

func fetch(url string) permission.Call { return call("WebFetch", "url", url) }

func TestRulesForDomains(t *testing.T) {
	const p = "allow: WebFetch(domain:docs.python.org); WebFetch(domain:*.example.com); WebFetch(domain:bücher.example) | default: ask"
	check(t, []ruling{
		{p, fetch("https://docs.python.org/3/"), permission.Allow},
		{p, fetch("https://DOCS.python.org.:443/"), permission.Allow},
		{p, fetch("HTTPS://docs.python.org"), permission.Allow},
		{p, fetch("https://a.b.Example.COM/x"), permission.Allow},
		{p, fetch("https://bücher.example/"), permission.Allow},
		{p, fetch("https://BÜCHER.example/"), permission.Allow},
		{p, fetch("https://xn--bcher-kva.example/"), permission.Allow},
		{p, fetch("https://docs.python.org/?a=b&c=%20d#e"), permission.Allow},
		{p, fetch("https://example.com/"), permission.Ask},
		{p, fetch("https://xexample.com/"), permission.Ask},
		{p, fetch("https://docs.python.org.evil.example/"), permission.Ask},
		{p, fetch("https://evil.example/docs.python.org"), permission.Ask},
		{p, fetch("https://evil.example/?x=.example.com"), permission.Ask},
		{p, fetch("https://evil.example#.example.com"), permission.Ask},
		{p, fetch("https://docs.python.org@evil.example/"), permission.Ask},
		{p, fetch("https://u@docs.python.org/"), permission.Ask},
		{p, fetch("https://u:p@docs.python.org/"), permission.Ask},
		{p, fetch("https://docs。python.org/"), permission.Ask},
		{p, fetch("https://docs.python.org /"), permission.Deny},
		{p, fetch(`https://evil.example\@docs.python.org/`), permission.Deny},
		{p, fetch("https://docs.python.org:8080/"), permission.Deny},
		{p, fetch("https://docs.python.org:0/"), permission.Deny},
		{p, fetch("https://docs.python.org:65616/"), permission.Deny},
		{p, fetch("ftp://docs.python.org/"), permission.Deny},
		{p, fetch("file:///etc/passwd"), permission.Deny},
		{p, fetch("//docs.python.org/"), permission.Deny},
		{p, fetch("docs.python.org"), permission.Deny},
		{p, fetch(""), permission.Deny},
		{p, fetch("https://docs.python.org/\n"), permission.Deny},
		{"deny: WebFetch(domain:evil.example) | default: allow", fetch("http://EVIL.example./x"), permission.Deny},
		{"deny: WebFetch(domain:evil.example) | default: allow", fetch("http://u@fine.example/"), permission.Ask},
		{"deny: WebFetch(domain:evil.example) | default: allow", fetch("http://fine.example/"), permission.Allow},
		{"deny: WebFetch(domain:bücher.example) | default: allow", fetch("http://xn--bcher-kva.example/"), permission.Deny},
	})
}

func TestOnlyARuleForTheAddressReachesOneThatIsNotPublic(t *testing.T) {
	const all = "allow: WebFetch | default: allow"
	for _, url := range []string{
		"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0x7f.1/", "http://127.0.0.1./",
		"http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://0.0.0.0/", "http://0/",
		"http://10.1.2.3/", "http://172.16.0.1/", "http://192.168.1.1/", "http://169.254.169.254/latest/meta-data/", "http://100.64.0.1/",
		"http://192.0.0.1/", "http://198.18.0.1/", "http://224.0.0.251/", "http://255.255.255.255/", "http://[fc00::1]/", "http://[fe80::1]/",
		"http://[fe80::1%25eth0]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2001:0:1::1]/", "http://[ff02::fb]/",
		"http://8.8.8.8:22/", "http://example.com:8080/",
	} {
		if v := judged(policy(t, all), fetch(url)); v.Action != permission.Deny || v.Stage != permission.StageFinalDeny {
			t.Errorf("%s: got %v (%s), want a final deny", url, v.Action, v.Why)
		}
	}
	check(t, []ruling{
		{all, fetch("http://8.8.8.8/"), permission.Allow},
		{all, fetch("http://example.com/"), permission.Allow},
		{all, fetch("http://[2606:2800:220:1::1]/"), permission.Allow},
		{"allow: WebFetch(ip:127.0.0.1:3000)", fetch("http://127.0.0.1:3000/x"), permission.Allow},
		{"allow: WebFetch(ip:127.0.0.1:3000)", fetch("http://127.0.0.1/x"), permission.Deny},
		{"allow: WebFetch(ip:127.0.0.1:3000)", fetch("http://127.1:3000/x"), permission.Deny},
		{"allow: WebFetch(ip:127.0.0.1:3000)", fetch("http://[::ffff:127.0.0.1]:3000/x"), permission.Allow},
		{"allow: WebFetch(ip:[::1]:3000)", fetch("http://[::1]:3000/x"), permission.Allow},
		{"allow: WebFetch(ip:10.0.0.1)", fetch("http://10.0.0.1/"), permission.Allow},
		{"allow: WebFetch(ip:10.0.0.1)", fetch("http://10.0.0.1:81/"), permission.Deny},
		{"deny: WebFetch(ip:8.8.8.8) | allow: WebFetch", fetch("https://8.8.8.8/"), permission.Deny},
		{"allow: WebFetch(ip:10.0.0.1)", fetch("https://10.0.0.1/"), permission.Allow},
		{"deny: WebFetch(ip:8.8.8.8) | allow: WebFetch", fetch("https://134744072/"), permission.Deny},
		{"deny: WebFetch(ip:8.8.8.8:443) | allow: WebFetch", fetch("https://8.8.8.8/"), permission.Deny},
		{"deny: WebFetch(ip:8.8.8.8:80) | allow: WebFetch", fetch("https://8.8.8.8/"), permission.Allow},
		{"deny: WebFetch(ip:8.8.4.4) | allow: WebFetch", fetch("https://8.8.8.8/"), permission.Allow},
		{"allow: WebFetch", fetch("https://134744072/"), permission.Deny},
		{"allow: WebFetch", fetch("https://u@example.com/"), permission.Ask},
		{"default: allow", fetch("https://example。com/"), permission.Ask},
		{"allow: WebFetch(ip:8.8.8.8)", fetch("https://134744072/"), permission.Deny},
	})
}

func TestDialIsTheLeastThatEveryLinkAllows(t *testing.T) {
	wide := permission.Link{Policy: policy(t, "allow: WebFetch; WebFetch(ip:127.0.0.1:3000); WebFetch(ip:10.0.0.1)")}
	narrow := permission.Link{Policy: policy(t, "allow: WebFetch; WebFetch(ip:127.0.0.1:3000)")}
	none := permission.Link{Policy: policy(t, "allow: WebFetch")}
	here, near, out := netip.MustParseAddrPort("127.0.0.1:3000"), netip.MustParseAddrPort("10.0.0.1:80"),
		netip.MustParseAddrPort("93.184.215.14:443")
	for _, c := range []struct {
		chain permission.Chain
		want  [3]bool
	}{
		{permission.Chain{wide}, [3]bool{true, true, true}},
		{permission.Chain{wide, narrow}, [3]bool{true, false, true}},
		{permission.Chain{narrow, wide}, [3]bool{true, false, true}},
		{permission.Chain{wide, none}, [3]bool{false, false, true}},
	} {
		v := c.chain.Judge(fetch("https://example.com/"))
		got := [3]bool{v.Dial.Allows(here), v.Dial.Allows(near), v.Dial.Allows(out)}
		if v.Action != permission.Allow || got != c.want {
			t.Errorf("chain of %d: %v, reaches %v, want %v", len(c.chain), v.Action, got, c.want)
		}
		if v.Dial.Allows(netip.MustParseAddrPort("93.184.215.14:25")) || v.Dial.Allows(netip.AddrPort{}) {
			t.Error("a port that is not of the web, or no address, may be dialled")
		}
	}
}

func FuzzTargetsAreReadOneWay(f *testing.F) {
	for _, s := range []string{"https://a.example/", "http://127.1", "http://[::1]:80/", "http://0x7f.1/", "https://ü.example",
		"http://a@b/", "http://1.2.3.4.5/", "http://08/", "http://0x/"} {
		f.Add(s)
	}
	rules := policy(f, "allow: WebFetch(domain:a.example); WebFetch | default: allow")
	f.Fuzz(func(t *testing.T, url string) {
		v := judged(rules, fetch(url))
		if v.Action != permission.Deny && v.Why == "" {
			t.Errorf("%q: %v without a reason", url, v.Action)
		}
	})
}

package identity_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/security/identity"
)

func TestLabelsAreCertifiedAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		k, dir := key(t), filepath.Join(t.TempDir(), "member")
		a, err := f.ask(t, f.token(t, 0, "worker", "room=kitchen", "gpu=a100.80G"), k)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Save(dir); err != nil {
			t.Fatal(err)
		}
		node, err := identity.OpenMember(dir, k)
		if err != nil {
			t.Fatal(err)
		}
		want := identity.Peer{ID: node.ID(), Authority: "home", Role: "worker", Labels: "gpu=a100.80G,room=kitchen"}
		f.join(t, "")
		proven := func() {
			t.Helper()
			s, _, serverErr, clientErr := handshake(t, f.seed.ServerTLS(), node.ClientTLS(f.seed.ID()))
			if p, err := identity.PeerOf(s); serverErr != nil || clientErr != nil || err != nil || p != want {
				t.Errorf("a handshake proves %+v (%v, %v, %v), want %+v", p, serverErr, clientErr, err, want)
			}
		}
		proven()
		renew := func(as identity.Peer) error {
			r, err := node.RenewRequest()
			if err != nil {
				t.Fatal(err)
			}
			reply, err := f.Renew(as, r)
			if err != nil {
				t.Fatal(err)
			}
			return node.Renewed(reply)
		}
		time.Sleep(4 * 24 * time.Hour)
		if err := renew(want); err != nil {
			t.Fatal(err)
		}
		proven()
		records, err := f.Nodes()
		if i := slices.IndexFunc(records, func(r identity.Record) bool { return r.ID == node.ID() }); err != nil || len(records) != 3 || records[i].Labels != want.Labels {
			t.Errorf("the records are %+v, %v", records, err)
		}
		time.Sleep(time.Hour)
		other := want
		other.Labels = "room=cellar"
		if err := renew(other); !errors.Is(err, identity.ErrNotNode) {
			t.Errorf("a certificate with other labels: %v", err)
		}
		if node, err = identity.OpenMember(dir, k); err != nil {
			t.Fatal(err)
		}
		proven()
	})
}

func TestLabelsHaveOneForm(t *testing.T) {
	for text, ok := range map[string]bool{
		"room=kitchen": true, "a.b_c-1=Z.9_x-": true, "k=" + strings.Repeat("v", 62): true, "k=" + strings.Repeat("v", 63): false, "room": false, "room=": false, "=x": false,
		"Room=x": false, "room=a,b=c": false, "room=a b": false, "room=a=b": false, "room=\x1b[1m": false, "r\u00f6=x": false, "room=*": false, "": false,
	} {
		if got, err := identity.ParseLabels([]string{text}); (err == nil) != ok || err != nil && !errors.Is(err, identity.ErrLabel) || ok && string(got) != text {
			t.Errorf("%q: %q, %v; want it taken: %t", text, got, err, ok)
		}
	}
	if _, err := identity.ParseLabels([]string{"room=a", "gpu=1", "room=b"}); !errors.Is(err, identity.ErrLabel) {
		t.Errorf("one key twice: %v", err)
	}
	var many []string
	for i := range 17 {
		many = append(many, "k"+strings.Repeat("x", i)+"=1")
	}
	if _, err := identity.ParseLabels(many[:16]); err != nil {
		t.Error(err)
	}
	if _, err := identity.ParseLabels(many); !errors.Is(err, identity.ErrLabel) {
		t.Errorf("17 labels: %v", err)
	}
}

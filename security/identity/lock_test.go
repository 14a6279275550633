package identity_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/security/passphrase"
	"symbio/security/identity"
)

// reopened returns f's cluster as a process that starts now has it.
func (f founded) reopened(t *testing.T) *identity.Cluster {
	t.Helper()
	c, err := identity.OpenCluster(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLockedAuthoritySignsNothingUntilItIsUnlocked(t *testing.T) {
	f := found(t, "home")
	bob, _ := f.join(t, "worker")
	token := f.token(t, 0, "")
	file := filepath.Join(f.dir, "authority.pem")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Key().Unlock("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unlock what is not locked: %v", err)
	}
	f.Key().Forget()
	if f.Key().Locked() {
		t.Error("a key that is not locked on the disk was forgotten")
	}
	if err := f.Key().Lock("correct horse"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil || bytes.Contains(after, []byte("PRIVATE KEY")) || bytes.Contains(before, []byte("ENCRYPTED")) {
		t.Errorf("the file shows the key: %v", err)
	}
	fresh := f.reopened(t)
	for name, c := range map[string]*identity.Cluster{"the process that locked it": f.Cluster, "another": fresh} {
		if !c.Key().Locked() || c.Tag() != f.seed.Tag() {
			t.Errorf("%s: locked %t, tag %s", name, c.Key().Locked(), c.Tag())
		}
		request, err := bob.RenewRequest()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(identity.Peer{ID: bob.ID(), Authority: "home", Role: "worker"}, request); !errors.Is(err, identity.ErrLocked) {
			t.Errorf("%s renews: %v", name, err)
		}
		if err := c.Remove(bob.ID()); !errors.Is(err, identity.ErrLocked) || c.Revocations().Has(bob.ID()) {
			t.Errorf("%s removes: %v", name, err)
		}
		if _, err := c.Issue(key(t), "new"); !errors.Is(err, identity.ErrLocked) {
			t.Errorf("%s issues: %v", name, err)
		}
		if err := c.Key().Lock("again"); !errors.Is(err, identity.ErrLocked) {
			t.Errorf("%s locks again: %v", name, err)
		}
	}
	if _, err := f.promote(t, bob); !errors.Is(err, identity.ErrLocked) {
		t.Errorf("promoted: %v", err)
	}
	// A refusal does not use the token up.
	joiner := key(t)
	if _, err := f.ask(t, token, joiner); !errors.Is(err, identity.ErrLocked) {
		t.Errorf("joined: %v", err)
	}

	if _, err := f.Key().Unlock("wrong horse"); !errors.Is(err, passphrase.ErrWrong) {
		t.Errorf("with another passphrase: %v", err)
	}
	secret, err := f.Key().Unlock("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	other := found(t, "home")
	if err := other.Key().Lock("x"); err != nil {
		t.Fatal(err)
	}
	if err := other.Key().Use(secret); err == nil || !other.Key().Locked() {
		t.Errorf("the key of another authority was used: %v", err)
	}
	if err := f.Key().Use(secret); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ask(t, token, joiner); err != nil {
		t.Errorf("after it was unlocked: %v", err)
	}
	if !f.reopened(t).Key().Locked() {
		t.Error("it was unlocked on the disk, too")
	}
	f.Key().Forget()
	if !f.Key().Locked() {
		t.Error("the key was not forgotten")
	}
	if err := f.Key().RemoveLock(secret); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, before) {
		t.Errorf("the file is not as it was before the lock: %v", err)
	}
}

// The node that made the cluster signs its own certificates. When its key is locked, others renew it.
func TestNodeOfALockedAuthorityIsRenewedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		bob, _ := f.join(t, "")
		second, err := f.promote(t, bob)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "seed")
		if err := f.Enlisted(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a certificate on the disk: %v", err)
		}
		if err := f.Enlist(identity.KeyOf(f.seed), "seed", dir); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Key().Lock("correct horse"), f.Enlisted(dir), f.Enlisted(dir)); err != nil {
			t.Fatal(err)
		}
		restarted, err := identity.ReopenAt(f.reopened(t), dir, f.seed)
		if err != nil || restarted.ID() != f.seed.ID() || !restarted.Cluster().Key().Locked() {
			t.Fatalf("started again: %v, %v", restarted, err)
		}
		time.Sleep(4 * 24 * time.Hour)
		trusts(t, f.seed, bob)
		if !f.seed.Due() || f.seed.Overdue() == nil || !errors.Is(f.seed.Overdue(), identity.ErrLocked) {
			t.Errorf("at half of its life: due %t, %v", f.seed.Due(), f.seed.Overdue())
		}
		if here, err := f.seed.RenewHere(); here || err != nil {
			t.Errorf("it renews itself: %t, %v", here, err)
		}
		request, err := f.seed.RenewRequest()
		if err != nil {
			t.Fatal(err)
		}
		reply, err := second.Renew(identity.Peer{ID: f.seed.ID(), Authority: "home", Role: "node"}, request)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.seed.Renewed(reply); err != nil || f.seed.Due() {
			t.Errorf("renewed by the second: %v, due %t", err, f.seed.Due())
		}
		// The new certificate is on the disk.
		if again, err := identity.ReopenAt(f.reopened(t), dir, f.seed); err != nil || again.Due() {
			t.Errorf("started again: %v, %v", again, err)
		}
	})
}

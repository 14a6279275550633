package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// GiveUp takes the authority from this machine: its key, its records, and the tokens that it made, which no machine can redeem
// then. The nodes of the machine, given as their keys by the directories of their memberships, become members that others
// renew; a member of another cluster is left alone. The nodes that run have to be started again. The caller makes sure that
// another machine holds the authority. After an error it can be called again while OpenCluster finds the cluster.
func (l Ledger) GiveUp(nodes map[string]*Key) error {
	c := l.cluster
	if c.Key().authority.succession.Load() != nil {
		return ErrRotating
	}
	for dir, k := range nodes {
		if err := l.release(k, dir); err != nil {
			return err
		}
	}
	// The key goes first: without it, the rest is of no use.
	if err := os.Remove(filepath.Join(c.dir, authorityFile)); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

// release makes a node of this machine a member like those of others: it stores a certificate, if the node has none, and the
// list of removed nodes. Nodes that are not of the cluster are left alone.
func (l Ledger) release(k *Key, dir string) error {
	c := l.cluster
	_, a, err := readMember(filepath.Join(dir, memberFile))
	if err == nil && !a.all().meets(c.authority.all()) || c.revoked.Has(k.id) {
		return nil
	}
	var r Record
	if err := readJSON(c.recordFile(k.id), &r); errors.Is(err, fs.ErrNotExist) {
		return nil // it has never been of the cluster
	} else if err != nil {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		leaf, err := c.authority.certify(k.public(), Peer{Role: r.Role, Labels: r.Labels}, time.Now())
		if err != nil {
			return err
		}
		if err := saveMember(dir, leaf, c.authority); err != nil {
			return err
		}
	}
	known, err := openRevocations(c.authority, dir)
	if err != nil {
		return err
	}
	list, _ := c.revoked.Current()
	_, err = known.Update(list)
	return err
}

// NoteGivenUp records whether a node to which the authority was given says that it has given it up. It does nothing for
// other nodes.
func (l Ledger) NoteGivenUp(id NodeID, gaveUp bool) error {
	c := l.cluster
	var r Record
	if err := readJSON(c.recordFile(id), &r); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !r.Holds || r.GaveUp.IsZero() != gaveUp {
		return nil
	}
	if r.GaveUp = (time.Time{}); gaveUp {
		r.GaveUp = time.Now().UTC()
	}
	return c.keepRecord(r)
}

// NoteLeft records that a node of this machine has left the cluster, so that its name is free.
func (l Ledger) NoteLeft(id NodeID) error {
	c := l.cluster
	var r Record
	if err := readJSON(c.recordFile(id), &r); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r.Expires = time.Now().UTC()
	return c.keepRecord(r)
}

package identity

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/internal/security/private"
)

// Limits of tokens.
const (
	// TokenLife is how long a token is good unless it is made for another time.
	TokenLife = time.Hour
	// MaxTokenLife is the longest life that NewToken accepts: every open token is a way into the
	// cluster.
	MaxTokenLife = 30 * 24 * time.Hour
	// spent is how long a token is remembered after its end, so that a node that comes late gets
	// ErrTokenExpired or ErrTokenUsed instead of ErrTokenUnknown.
	spent = 24 * time.Hour

	// usedEnd ends the name of the file that says which node has used a token.
	usedEnd = ".used"
)

// ticket is what the authority keeps of a token, in a file named by the hash of the token's public
// key. The token itself is not kept: a copy of these files does not let anyone join.
type ticket struct {
	// Role is the role that the token gives, never "".
	Role   string `json:"role"`
	Labels Labels `json:"labels,omitempty"`
	// Created is when it was made, Expires when it ends, and Revoked when a person revoked it, in UTC. Created is zero in
	// files of older versions.
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
	// file is where the ticket was read from; it is not stored.
	file string
}

// use records which node joined with a token.
type use struct {
	Node NodeID `json:"node"`
}

// NewToken returns a token that lets one node join in a role ("" = node) and with labels, each KEY=VALUE, within life (0 =
// TokenLife, at most MaxTokenLife). Only this machine can redeem it, and must run a node when it is
// used. The token cannot be shown again. NewToken also removes the files of old tokens. It returns
// ErrRole for a role that is no lower-case name, and ErrLabel for labels that ParseLabels does not take.
func (c *Cluster) NewToken(life time.Duration, role string, labels ...string) (Token, error) {
	life = cmp.Or(life, TokenLife)
	role = cmp.Or(role, roleNode)
	if life < 0 || life > MaxTokenLife {
		return Token{}, fmt.Errorf("a token is good for up to %v, not %v", MaxTokenLife, life)
	}
	if !label(role) {
		return Token{}, fmt.Errorf("role %q: %w: want lower-case letters, digits and - inside", role, ErrRole)
	}
	given, err := ParseLabels(labels)
	if err != nil {
		return Token{}, err
	}
	now := time.Now()
	if err := c.tidy(now); err != nil {
		return Token{}, err
	}
	t := newToken(c.authority.all().issuer().hash())
	data, err := json.Marshal(ticket{Role: role, Labels: given, Created: now.UTC(), Expires: now.Add(life).UTC()})
	if err != nil {
		return Token{}, err
	}
	if err := private.Replace(c.ticketFile(t.public()), data); err != nil {
		return Token{}, fmt.Errorf("keep the token: %w", err)
	}
	return t, nil
}

// ticketFile returns the path of a token's ticket: tokens/ and 64 hex digits.
func (c *Cluster) ticketFile(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return filepath.Join(c.dir, "tokens", hex.EncodeToString(sum[:]))
}

// ticket returns what is kept of a token; ErrTokenUnknown if this machine did not make it, or has
// forgotten it.
func (c *Cluster) ticket(public ed25519.PublicKey) (t ticket, err error) {
	t.file = c.ticketFile(public)
	err = readJSON(t.file, &t)
	if errors.Is(err, fs.ErrNotExist) {
		return t, ErrTokenUnknown
	}
	return t, err
}

// redeem marks the token as used by a node. Of several nodes that try at the same instant, in this
// process or another, one succeeds: the file that names the node can be created only once. The same
// node may ask again while the token lasts, in case the reply was lost. It returns ErrTokenExpired,
// or ErrTokenUsed if another node has used it.
func (c *Cluster) redeem(t ticket, id NodeID, now time.Time) error {
	if !t.Revoked.IsZero() {
		return fmt.Errorf("%w: it was revoked at %s; get another with `symbio cluster token`", ErrTokenExpired, t.Revoked.UTC().Format(time.RFC3339))
	}
	if t.Expires.Before(now) {
		return fmt.Errorf("%w: it ended at %s; get another with `symbio cluster token`", ErrTokenExpired, t.Expires.UTC().Format(time.RFC3339))
	}
	data, err := json.Marshal(use{Node: id})
	if err != nil {
		return err
	}
	err = private.Create(t.file+usedEnd, data)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	var by use
	if err := readJSON(t.file+usedEnd, &by); err != nil {
		return err
	}
	if by.Node != id {
		return fmt.Errorf("%w: each is good for one node; get another with `symbio cluster token`", ErrTokenUsed)
	}
	return nil
}

// tidy removes the files of tokens that ended more than spent ago. Files that it cannot read stay.
func (c *Cluster) tidy(now time.Time) error {
	files, err := filepath.Glob(filepath.Join(c.dir, "tokens", strings.Repeat("?", 2*sha256.Size)))
	if err != nil {
		return err
	}
	for _, f := range files {
		var t ticket
		if err := readJSON(f, &t); err != nil || now.Sub(t.Expires) < spent {
			continue
		}
		for _, old := range []string{f, f + usedEnd} {
			if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Ledger is what the authority of a cluster keeps on this machine beside its key: tokens, and records of nodes. It may be
// used from many goroutines.
type Ledger struct{ cluster *Cluster }

// Ledger returns the Ledger of the cluster.
func (c *Cluster) Ledger() Ledger { return Ledger{c} }

// OpenToken is a token that a node could still join with. It has nothing of the secret.
type OpenToken struct {
	// ID names the token among those of this machine: 16 hex digits of the hash of its public key.
	ID     string            `json:"id"`
	Role   string            `json:"role"`
	Labels map[string]string `json:"labels,omitempty"`
	// Created is zero for a token of an older version.
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires"`
}

// tokenIDLength is the length of OpenToken.ID.
const tokenIDLength = 16

// OpenTokens returns the tokens that are neither used nor revoked nor expired, the one that ends first in front: each is a
// way into the cluster. Tickets that cannot be read are left out, since they cannot be redeemed either.
func (l Ledger) OpenTokens() ([]OpenToken, error) {
	c := l.cluster
	files, err := filepath.Glob(filepath.Join(c.dir, "tokens", strings.Repeat("?", 2*sha256.Size)))
	var open []OpenToken
	for _, f := range files {
		var t ticket
		if _, used := os.Stat(f + usedEnd); errors.Is(used, fs.ErrNotExist) && readJSON(f, &t) == nil && t.Revoked.IsZero() && t.Expires.After(time.Now()) {
			open = append(open, OpenToken{filepath.Base(f)[:tokenIDLength], t.Role, t.Labels.Map(), t.Created, t.Expires})
		}
	}
	slices.SortFunc(open, func(a, b OpenToken) int { return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID)) })
	return open, err
}

// RevokeToken ends an open token, which id names as OpenTokens does. A node that is joining with it at that moment may
// still succeed. It returns ErrTokenUnknown if no open token has that id.
func (l Ledger) RevokeToken(id string) error {
	c := l.cluster
	files, err := filepath.Glob(filepath.Join(c.dir, "tokens", strings.Repeat("?", 2*sha256.Size)))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(files, func(f string) bool { return filepath.Base(f)[:tokenIDLength] == id })
	if i < 0 {
		return ErrTokenUnknown
	}
	var t ticket
	if err := readJSON(files[i], &t); err != nil {
		return err
	}
	t.Revoked = time.Now().UTC()
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return private.Replace(files[i], data)
}

// Record is what the authority knows about a node that it certified: nodes/ID.json. Nothing is
// decided by it; removed nodes are in Revocations.
type Record struct {
	ID NodeID `json:"id"`
	// Name is what the node called itself; it proves nothing.
	Name   string `json:"name"`
	Role   string `json:"role"`
	Labels Labels `json:"labels,omitempty"`
	// Joined is when it got its first certificate, Expires when its last one ends.
	Joined  time.Time `json:"joined"`
	Expires time.Time `json:"expires"`
	// Holds says that the node was given the authority, or gave it to this machine. When such a
	// node is removed it still has the key.
	Holds bool `json:"holds_authority,omitempty"`
	// GaveUp is when such a node said that it does not have it any more; zero = it does.
	GaveUp time.Time `json:"gave_up,omitzero"`
	// Removed is filled in by Nodes and not stored.
	Removed bool `json:"-"`
}

// IsHolder reports whether the node has the authority, as far as it is known.
func (r Record) IsHolder() bool { return r.Holds && r.GaveUp.IsZero() && !r.Removed }

// IsGone reports whether the node cannot come back at now: its certificate ended more than grace before, so that it is not
// renewed any more, or it was removed and its certificate has ended.
func (r Record) IsGone(now time.Time, grace time.Duration) bool {
	if r.Removed {
		return now.After(r.Expires)
	}
	return !r.Expires.IsZero() && now.Sub(r.Expires) > grace
}

// record notes a certificate that was issued. An empty name keeps the known one, and Joined and
// Holds are kept, too. Two processes that note the same node at once may lose one of the two notes.
func (c *Cluster) record(leaf *x509.Certificate, name string) error {
	p, err := peerOf(leaf)
	if err != nil {
		return err
	}
	r := Record{Joined: time.Now().UTC()}
	if err := readJSON(c.recordFile(p.ID), &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if name = plain(name); name != "" {
		r.Name = name
	}
	r.ID, r.Role, r.Labels, r.Expires = p.ID, p.Role, p.Labels, leaf.NotAfter.UTC()
	return c.keepRecord(r)
}

func (c *Cluster) recordFile(id NodeID) string {
	return filepath.Join(c.dir, "nodes", string(id)+".json")
}

// Nodes returns the nodes that were ever certified, in the order in which they joined, removed ones
// included. One damaged record makes it fail, with an error that names the file.
func (c *Cluster) Nodes() ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(c.dir, "nodes", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, f := range files {
		var r Record
		if err := readJSON(f, &r); err != nil {
			return nil, err
		}
		r.Removed = c.revoked.Has(r.ID)
		now := c.revoked.Assigned(Peer{ID: r.ID, Role: r.Role, Labels: r.Labels})
		r.Role, r.Labels = now.Role, now.Labels
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return a.Joined.Compare(b.Joined) })
	return all, nil
}

// readJSON reads a file of this package's own; the error for a damaged one says to move it away.
func readJSON(file string, v any) error {
	data, err := readSecret(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is damaged; move it away: %w", file, err)
	}
	return nil
}

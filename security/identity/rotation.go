package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/internal/security/private"
	pb "symbio/proto/symbio/v1"
)

// Stage is how far the replacement of a cluster's authority has come. It only grows. Holders of both keys sign each one.
type Stage uint32

const (
	// StageNone: there is no replacement.
	StageNone Stage = iota
	// StageTrust: nodes trust both authorities. Certificates are still by the old one.
	StageTrust
	// StageCertify: certificates are by the new authority, and nodes with one of the old ask for another.
	StageCertify
	// StageDone: nodes trust the new authority only.
	StageDone
)

const (
	// successionFile holds the latest Succession, in the directory of a membership and of an authority.
	successionFile = "succession"
	// nextFile holds the new authority until StageDone; then it replaces authorityFile.
	nextFile = "next.pem"
	// maxAuthority is the most bytes of an authority's certificate in a message. It has some 450.
	maxAuthority = 4 << 10
	// LateRenewal is for how long after StageDone a holder keeps a certificate of the old authority, by which nodes that were
	// off know it.
	LateRenewal = Grace
)

var (
	// ErrRotating: something cannot be done while the authority is replaced.
	ErrRotating = errors.New("the authority of the cluster is being replaced, see `symbio cluster status`")
	// ErrSuccession: a message says wrongly that the cluster has another authority.
	ErrSuccession = errors.New("a new authority was announced, and not by the one of this cluster")
)

// succession is what comes after an authority. It is not changed.
type succession struct {
	message *pb.Succession
	next    *Authority
}

// stage returns StageNone for nil.
func (s *succession) stage() Stage {
	if s == nil {
		return StageNone
	}
	return Stage(s.message.GetStage())
}

// lineage is an authority and those that came after it, the newest last. It is never empty.
type lineage []*Authority

// all returns the authority and all that came after it.
func (a *Authority) all() lineage {
	all := lineage{a}
	for s := a.succession.Load(); s != nil; s = s.next.succession.Load() {
		all = append(all, s.next)
	}
	return all
}

// trusted returns the authorities whose certificates are accepted: one, or two until StageDone.
func (l lineage) trusted() lineage {
	for len(l) > 1 && l[0].succession.Load().stage() == StageDone {
		l = l[1:]
	}
	return l
}

// latest returns the authority that the cluster has, which is the old one until StageDone.
func (l lineage) latest() *Authority { return l.trusted()[0] }

// issuer returns the authority by which new certificates are.
func (l lineage) issuer() *Authority {
	l = l.trusted()
	if len(l) > 1 && l[0].succession.Load().stage() == StageCertify {
		return l[1]
	}
	return l[0]
}

// replaced returns the newest authority that has a successor, and its succession; nil if there is none.
func (l lineage) replaced() (old *Authority, s *succession) {
	if len(l) < 2 {
		return nil, nil
	}
	old = l[len(l)-2]
	return old, old.succession.Load()
}

// message returns the message about the newest authority, nil if there was none.
func (l lineage) message() *pb.Succession {
	if _, s := l.replaced(); s != nil {
		return s.message
	}
	return nil
}

// meets reports whether both are of one cluster.
func (l lineage) meets(other lineage) bool {
	return slices.ContainsFunc(l, func(x *Authority) bool {
		return slices.ContainsFunc(other, func(y *Authority) bool { return x.certificate.Equal(y.certificate) })
	})
}

// certifier returns the one that has certified the leaf; the latest if none has.
func (l lineage) certifier(leaf *x509.Certificate) *Authority {
	for _, a := range l {
		if a.certified(leaf) {
			return a
		}
	}
	return l.latest()
}

// protocol is the TLS protocol (ALPN) by which a node that dials says that it trusts the newest authority. It is never
// negotiated.
func (l lineage) protocol() string {
	return "symbio-trusts/" + tagOf(l[len(l)-1].certificate.RawSubjectPublicKeyInfo)
}

// certified reports whether the leaf names the authority as its issuer. The caller has verified the leaf.
func (a *Authority) certified(leaf *x509.Certificate) bool {
	return bytes.Equal(leaf.RawIssuer, a.certificate.RawSubject)
}

// successionText returns what both signatures of a Succession cover. All parts have a fixed length.
func successionText(s *pb.Succession) []byte {
	old, next := sha256.Sum256(s.GetOld()), sha256.Sum256(s.GetNew())
	b := slices.Concat([]byte("symbio succession v1\n"), old[:], next[:])
	b = binary.BigEndian.AppendUint32(b, s.GetStage())
	return binary.BigEndian.AppendUint64(b, uint64(s.GetSince().AsTime().Unix()))
}

// checkSuccession returns both authorities of a message, without keys. It returns ErrSuccession unless both are of one cluster
// and both have signed it.
func checkSuccession(s *pb.Succession) (old, next *Authority, err error) {
	bad := func(why string) error { return fmt.Errorf("%w: %s", ErrSuccession, why) }
	if stage := Stage(s.GetStage()); stage < StageTrust || stage > StageDone || !s.GetSince().IsValid() {
		return nil, nil, bad("it has no stage")
	}
	var both [2]*Authority
	for n, der := range [][]byte{s.GetOld(), s.GetNew()} {
		if len(der) > maxAuthority {
			return nil, nil, bad("a certificate is too long")
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, bad(err.Error())
		}
		if both[n], err = trust(certificate); err != nil {
			return nil, nil, bad("it " + err.Error())
		}
	}
	old, next = both[0], both[1]
	text := successionText(s)
	switch {
	case old.name == Local || old.name != next.name || old.tag != next.tag || old.certificate.Equal(next.certificate):
		return nil, nil, bad("the two authorities are not of one cluster")
	case !ed25519.Verify(old.public(), text, s.GetOldSignature()):
		return nil, nil, bad("the old authority has not signed it")
	case !ed25519.Verify(next.public(), text, s.GetNewSignature()):
		return nil, nil, bad("the new authority has not signed it")
	}
	return old, next, nil
}

// newer reports whether a replaces b, a succession of the same authority. Of two rotations that began at once, the one with
// the higher stage goes on, then the one whose new certificate has the lower hash.
func newer(a, b *pb.Succession) bool {
	if a.GetStage() != b.GetStage() || bytes.Equal(a.GetNew(), b.GetNew()) {
		return a.GetStage() > b.GetStage()
	}
	x, y := sha256.Sum256(a.GetNew()), sha256.Sum256(b.GetNew())
	return bytes.Compare(x[:], y[:]) < 0
}

// succeed takes a succession of the authority. keys is the directory of the new authority's key, if it is here. It returns
// false for a succession that is not newer than the known one.
func (a *Authority) succeed(s *pb.Succession, keys string) (bool, error) {
	a = a.all().latest()
	have := a.succession.Load()
	switch {
	case bytes.Equal(s.GetNew(), a.certificate.Raw):
		return false, nil // it is over here
	case !bytes.Equal(s.GetOld(), a.certificate.Raw):
		return false, fmt.Errorf("%w: it is of another authority", ErrSuccession)
	case have != nil && !newer(s, have.message):
		return false, nil
	}
	_, next, err := checkSuccession(s)
	if err != nil {
		return false, err
	}
	if a.key != nil {
		next = next.withKey(keys)
	}
	a.succession.Store(&succession{proto.CloneOf(s), next})
	return true, nil
}

// withKey returns the authority with its key if a file of the directory has it, else as it is.
func (a *Authority) withKey(dir string) *Authority {
	for _, name := range []string{nextFile, authorityFile} {
		data, err := readSecret(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if keyed, err := parseAuthority(data); err == nil && keyed.certificate.Equal(a.certificate) {
			return keyed
		}
	}
	return a
}

// restored returns the authority of a file in dir together with the one before or after it, by the succession that is stored
// there.
func (a *Authority) restored(dir string) (*Authority, error) {
	file := filepath.Join(dir, successionFile)
	data, err := readSecret(file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	s := &pb.Succession{}
	if err == nil {
		err = proto.Unmarshal(data, s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; move it away", file, err)
	}
	old, next, err := checkSuccession(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; move it away", file, err)
	case next.certificate.Equal(a.certificate):
		next = a
	case old.certificate.Equal(a.certificate):
		if old = a; a.key != nil {
			next = next.withKey(dir)
		}
	default:
		return a, nil // of an earlier membership
	}
	old.succession.Store(&succession{s, next})
	return old, nil
}

// keepSuccession stores the message in the directory.
func keepSuccession(dir string, s *pb.Succession) error {
	data, err := proto.Marshal(s)
	if err == nil {
		err = private.Replace(filepath.Join(dir, successionFile), data)
	}
	if err != nil {
		return fmt.Errorf("keep the new authority: %w", err)
	}
	return nil
}

// Rotation is the replacement of the authority of an identity's cluster. It may be used from many goroutines.
type Rotation struct{ identity *Identity }

// Rotation returns the Rotation of the identity.
func (i *Identity) Rotation() Rotation { return Rotation{i} }

// Begin makes a new authority on this machine, which holds the old one, and signs StageTrust. It returns ErrNoAuthority,
// ErrLocked if the key is encrypted on the disk, since the new one would not be, and ErrRotating, also while nodes may come back
// that were off in the rotation before; with again, these are lost.
func (r Rotation) Begin(again bool) error {
	c := r.identity.Cluster()
	if c == nil {
		return ErrNoAuthority
	}
	if err := c.Key().checkUnlocked(); err != nil {
		return err
	}
	old := c.authority.all().latest()
	if old.succession.Load() != nil {
		return ErrRotating
	}
	if s := r.Standing(); s != nil && !again {
		until := s.GetSuccession().GetSince().AsTime().Add(LateRenewal).Format(time.DateOnly)
		return fmt.Errorf("%w: nodes that were off in the rotation before can come back until %s, and could not after another one", ErrRotating, until)
	}
	data, err := newAuthority(c.Name(), old.tag)
	if err != nil {
		return err
	}
	next, err := parseAuthority(data)
	if err != nil {
		return err
	}
	if err := private.Replace(filepath.Join(c.dir, nextFile), data); err != nil {
		return err
	}
	return r.sign(old, next, StageTrust)
}

// Advance signs the stage after from, if the replacement is at from and this node has both keys.
func (r Rotation) Advance(from Stage) error {
	c := r.identity.Cluster()
	if c == nil {
		return nil
	}
	old, s := c.authority.all().replaced()
	if s.stage() != from || from >= StageDone || s.next.key == nil {
		return nil
	}
	return r.sign(old, s.next, from+1)
}

func (r Rotation) sign(old, next *Authority, stage Stage) error {
	s := &pb.Succession{Old: old.certificate.Raw, New: next.certificate.Raw, Stage: uint32(stage), Since: timestamppb.New(time.Now().Truncate(time.Second))}
	text := successionText(s)
	for to, a := range map[*[]byte]*Authority{&s.OldSignature: old, &s.NewSignature: next} {
		signer, err := a.signer()
		if err != nil {
			return err
		}
		*to = ed25519.Sign(signer, text)
	}
	_, err := r.Take(s)
	return err
}

// Take takes a message about the authority from another node, which need not be trusted, and follows it: it is stored, and
// from its stage on other authorities are trusted, or sign. Nothing happens if it says nothing new. It returns ErrSuccession if
// it is not signed by the authority that the cluster has, and true beside an error if it is in force and could not be stored.
func (r Rotation) Take(s *pb.Succession) (bool, error) {
	i := r.identity
	if s == nil || i.revoked == nil {
		return false, nil
	}
	i.taking.Lock()
	defer i.taking.Unlock()
	c := i.Cluster()
	handles, keys := []*Authority{i.cred.authority}, ""
	if c != nil {
		keys = c.dir
		if c.authority != i.cred.authority {
			handles = append(handles, c.authority)
		}
	}
	taken := false
	for _, a := range handles {
		new, err := a.succeed(s, keys)
		if err != nil {
			return taken, err
		}
		taken = taken || new
	}
	if !taken {
		return false, nil
	}
	var err error
	if dir := i.cred.dir(); dir != "" {
		err = keepSuccession(dir, s)
	}
	if c != nil {
		err = errors.Join(err, keepSuccession(c.dir, s), r.follow(c))
	}
	i.revoked.touch()
	return true, err
}

// follow does on a machine with the authority what belongs to the stage: this node gets its last certificate of the old
// authority, lists are signed anew, and at last the old key is destroyed. Without the new key it is a member like others.
func (r Rotation) follow(c *Cluster) error {
	i := r.identity
	old, s := c.authority.all().replaced()
	if s.stage() < StageCertify {
		return nil
	}
	if s.next.key == nil {
		i.cluster.Store(nil)
		return nil
	}
	err := errors.Join(i.cred.keepOld(old, c.dir), i.revoked.Reload())
	if s.stage() == StageDone {
		if old.key != nil {
			old.key.open.Store(nil)
		}
		err = errors.Join(err, destroyOld(c.dir))
	}
	return err
}

// destroyOld puts the new authority in the place of the old one, whose key is gone then.
func destroyOld(dir string) error {
	err := os.Rename(filepath.Join(dir, nextFile), filepath.Join(dir, authorityFile))
	if errors.Is(err, fs.ErrNotExist) { // another process was faster
		return nil
	}
	return err
}

// keepNext keeps the key of the new authority, which another holder has sent, if it is the one that this cluster goes on with.
func (r Rotation) keepNext(next []byte, dir string) error {
	i := r.identity
	keyed, err := parseAuthority(next)
	if err != nil {
		return fmt.Errorf("the new authority that was sent %w", err)
	}
	i.taking.Lock()
	defer i.taking.Unlock()
	if _, s := i.cred.authority.all().replaced(); s == nil || !s.next.certificate.Equal(keyed.certificate) {
		return nil // another rotation goes on
	}
	if err := private.Replace(filepath.Join(dir, nextFile), next); err != nil {
		return err
	}
	if c := i.Cluster(); c != nil {
		for _, a := range []*Authority{i.cred.authority, c.authority} {
			if old, s := a.all().replaced(); old != nil && old.key != nil {
				old.succession.Store(&succession{s.message, keyed})
			}
		}
	}
	i.revoked.touch()
	return nil
}

// RotationState is where a replacement stands.
type RotationState struct {
	Stage Stage
	// Since is when the stage began.
	Since time.Time
	// Successor is the beginning of the hash of the new authority's certificate, in hex.
	Successor string
}

// State returns where the replacement stands, as this node knows; the zero value if there was none.
func (r Rotation) State() RotationState {
	_, s := r.identity.cred.authority.all().replaced()
	if s == nil {
		return RotationState{}
	}
	sum := s.next.hash()
	return RotationState{s.stage(), s.message.GetSince().AsTime(), fmt.Sprintf("%x", sum[:8])}
}

// Standing returns what this node tells others of the replacement; nil if there is none, or it is over for long.
func (r Rotation) Standing() *pb.Standing {
	_, s := r.identity.cred.authority.all().replaced()
	if s == nil || s.stage() == StageDone && time.Since(s.message.GetSince().AsTime()) > LateRenewal {
		return nil
	}
	st := &pb.Standing{Succession: s.message, Certified: s.next.certified(r.identity.cred.leaf())}
	if c := r.identity.Cluster(); c != nil {
		_, own := c.authority.all().replaced()
		st.HasKey = own != nil && own.next.key != nil
	}
	return st
}

// Of another node, in the replacement that this node knows.
const (
	ProgressOld       = "old"       // it does not know of it
	ProgressTrusts    = "trusts"    // it trusts both authorities
	ProgressCertified = "certified" // its certificate is by the new authority
)

// Progress returns how far another node is by its Standing; "" if there is no replacement here.
func (r Rotation) Progress(p *pb.Standing) string {
	own := r.Standing()
	switch {
	case own == nil:
		return ""
	case !bytes.Equal(own.GetSuccession().GetNew(), p.GetSuccession().GetNew()):
		return ProgressOld
	case p.GetCertified():
		return ProgressCertified
	}
	return ProgressTrusts
}

package content

import "io"

// Pieces reads a content that comes in pieces, such as another node's.
type Pieces struct {
	// Get returns the piece at an offset; an empty one is the end.
	Get func(offset int64) ([]byte, error)

	at   int64
	rest []byte // of the latest piece
}

// Read implements io.Reader.
func (p *Pieces) Read(to []byte) (n int, err error) {
	if len(p.rest) == 0 {
		if p.rest, err = p.Get(p.at); err == nil && len(p.rest) == 0 {
			err = io.EOF
		}
		if err != nil {
			return 0, err
		}
		p.at += int64(len(p.rest))
	}
	n = copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

package identity

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"time"
)

// LocalAuthorityLife returns from when to when the certificate of the local authority in dir is
// valid. The error says why OpenLocalAuthority would refuse it now; fs.ErrNotExist if there is
// none. Both times are set beside an error if the file holds a readable certificate, so that an
// expired one can be shown. It creates nothing, so it is safe for a diagnosis.
func LocalAuthorityLife(dir string) (begins, ends time.Time, err error) {
	file := filepath.Join(dir, authorityFile)
	data, err := readSecret(file)
	if err != nil {
		return begins, ends, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == certificateBlock {
			begins, ends = c.NotBefore, c.NotAfter
		}
	}
	if _, err := parseAuthority(data); err != nil {
		return begins, ends, fmt.Errorf("%s %w", file, err)
	}
	return begins, ends, nil
}

/* version - what -V prints. */
#ifndef QIM_BASE_VERSION_H
#define QIM_BASE_VERSION_H

#define QIM_VERSION "0.1.0"

#endif

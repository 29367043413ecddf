"""Makes PNG files small: pictures of pages have few colors, so that a palette of 256 is enough."""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(data):
    at = len(SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def size(data):
    """Width and height."""
    for kind, body in chunks(data):
        if kind == b"IHDR":
            return struct.unpack(">II", body[:8])
    raise ValueError("no PNG")


def rows(data):
    """The rows of an 8-bit picture, and the bytes of a pixel."""
    header = packed = b""
    for kind, body in chunks(data):
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed += body
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if depth != 8 or color not in (2, 6) or interlace:
        raise ValueError(f"depth {depth}, color {color}")
    step = 3 if color == 2 else 4
    raw, length, before, found = zlib.decompress(packed), width * step, bytearray(width * step), []
    for row in range(height):
        at = row * (length + 1)
        line = bytearray(raw[at + 1 : at + 1 + length])
        unfilter(raw[at], line, before, step)
        found.append(line)
        before = line
    return found, step


def unfilter(kind, line, before, step):
    for at in range(len(line)) if kind else ():
        left = line[at - step] if at >= step else 0
        above, corner = before[at], before[at - step] if at >= step else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above
        elif kind == 3:
            guess = (left + above) // 2
        else:
            base = left + above - corner
            guess = min((abs(base - left), 0, left), (abs(base - above), 1, above), (abs(base - corner), 2, corner))[2]
        line[at] = (line[at] + guess) & 255


def smaller(data):
    """The same picture with a palette of its most frequent colors; others become the nearest of these."""
    lines, step = rows(data)
    counts = {}
    pixels = [[bytes(line[at : at + 3]) for at in range(0, len(line), step)] for line in lines]
    for line in pixels:
        for pixel in line:
            counts[pixel] = counts.get(pixel, 0) + 1
    palette = sorted(counts, key=lambda color: (-counts[color], color))[:256]
    numbers = {color: number for number, color in enumerate(palette)}
    for color in counts:
        if color not in numbers:
            numbers[color] = min(range(len(palette)), key=lambda one: sum((a - b) ** 2 for a, b in zip(palette[one], color)))
    raw = b"".join(b"\0" + bytes(numbers[pixel] for pixel in line) for line in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 3, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"PLTE", b"".join(palette)), chunk(b"IDAT", zlib.compress(raw, 9)), chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(parts)

# ruff: noqa: RUF001  (look-alike characters are among what is tested)
"""Kinds of answers that users of other graders reported, each with answers that must stay wrong.

A line of a table is a gold answer and answers to it, in a box where they have none.
"""

import pytest

from podsgrading.unscorable import COUNTS
from podslab.tasks import get_task
from tests.support.arguable import answered, read_table

ORDINALS_RIGHT = r"""
12 :: 12^{\text{th}} // 12^{th} // 12\text{th} // 12th // 12\mathrm{th} // 12^{\rm th} //
    12^{\textrm{th}} // 12-\text{th} // 12\textsuperscript{th} // 12ᵗʰ //
    12^{\text{th}} \text{ term} // \text{the } 12^{\text{th}} \text{ day}
3 :: 3^{\text{rd}}
21 :: 21^{\mathrm{st}} // 21^\text{st}
11 :: 11^{th}
101 :: 101^{\text{st}}
12^{\text{th}} :: 12
n+1 :: (n+1)^{\text{th}}
1/12 :: 1/12^{\text{th}}
\text{June 20th} :: June 20
"""
ORDINALS_WRONG = r"""
12 :: 13^{\text{th}} // 12^{t} // 12^{h} // 12^{2} // \frac{1}{12^{\text{th}}} // 12\text{ths} //
    12^{\text{th}} \text{ root of } 2 // \text{one } 12^{\text{th}} // \text{at least } 12
11 :: 11^{st}
2 :: n^{\text{nd}} // 2^{n d} // 2^{st}
12^{t} :: 12
e^{th} :: e
(n+1)^{th} :: n+1
"""

# A residue must be reduced: "9 (mod 7)" may be what the question asks about.
MODULI_RIGHT = r"""
2 :: 2 \pmod{7} // 2 \mod 7 // 2 (mod 7) // 2 \bmod 7 // 2 \pmod 7 // 2 \; (\text{mod } 7) //
    2 \text{ mod } 7 // 2\ (\mathrm{mod}\ 7) // 2 modulo 7 // 2 \operatorname{mod} 7 //
    2 \pmod{p} // x \equiv 2 \pmod{7} // x ≡ 2 (mod 7) // 3^{100} \equiv 2 \pmod 7 // 9 \mod 7 = 2
-1 :: -1 \pmod{7}
2, 5 :: x \equiv 2, 5 \pmod{7} // 2 \pmod 7, 5 \pmod 7
n+1 :: n+1 \pmod{p}
2 \pmod{7} :: 2 // 2 \mod 7 // x \equiv 2 \pmod 7
-1 \pmod{7} :: 6 \pmod{7} // -1
x \equiv 5 \pmod{4} :: x \equiv 1 \pmod{4}
x \equiv 1 \pmod 4 \text{ or } x \equiv 3 \pmod 4 :: x \equiv 1, 3 \pmod 4
"""
MODULI_WRONG = r"""
2 :: 3 \pmod{7} // 9 \pmod{7} // 2 \pmod{2} // 2 \pmod{0} // 2 \text{ or } 3 \pmod 7 //
    2^{10} \pmod{7} // x \not\equiv 2 \pmod 7
9 :: 9 \pmod{7}
7 :: 2 \pmod{7}
2 \pmod{7} :: 3 \pmod{7} // 2 \pmod{5} // 9 // 9 \pmod{7} // 7
a \bmod b :: a
\frac{\pi}{3} :: \frac{\pi}{3} \pmod{2\pi}
x^2 :: x^2 \pmod{x-1}
n+1 :: n+1 \pmod{n}
x \equiv 3 \pmod{4} :: y \equiv 3 \pmod{4}
2k+1 \pmod{n} :: 2k+1 \pmod{m} // 2k+2 \pmod{n}
"""

CLAUSES_RIGHT = r"""
2x+1 :: 2x+1 \text{ for all } x // f(x) = 2x+1 \text{ for all real } x //
    2x+1, \text{ where } x \in \mathbb{R} // 2x+1 \quad \forall x \in \mathbb{R}
2 :: 2 \text{ for all } n \ge 1 // The answer is $2$ for all n
5 :: 5 \text{ for every positive integer } n // 5, \text{ for all } x
f(x) = \frac{1}{x} :: f(x) = \frac{1}{x} \text{ for all } x > 0
k\pi :: k\pi, \quad k \in \mathbb{Z} // k\pi \text{ where } k \text{ is an integer}
k\pi, k \in \mathbb{Z} :: k\pi // k\pi \text{ for any integer } k // x = k\pi \; (k \in \mathbb{Z})
ce^{x} :: ce^{x} \text{, where } c \text{ is a constant}
2^n-1 :: 2^n - 1 \text{ for } n \ge 1
x+1 :: x + 1, \quad x \neq 2 // x + 1 \text{ for } x \ne 2
f(x) = x \text{ for all } x \in \mathbb{R} :: f(x) = x // x
(t, 2t) :: (t, 2t), t \in \mathbb{R}
\text{true} :: \text{true for all } n
"""
CLAUSES_WRONG = r"""
2x+1 :: 2x+2 \text{ for all } x
x^2 :: x^2 \text{ where } x = 3
9 :: x^2 \text{ where } x = 9
2 :: 7 \text{ where } x = 2
x<3 :: x<3 \text{ where } x > 0 // x<3, x > 0
y = 2x :: y = 2x, x > 0
x :: x \text{ for } x > 0, -x \text{ for } x < 0 // \text{not } x \text{ for all } x
k\pi, k \in \mathbb{Z} :: k\pi, k \in \mathbb{R} // 2k\pi, k \in \mathbb{Z}
5 :: 5 \text{ if } n \text{ is even} // 5 \text{ where } n \text{ is even} // 5 \text{ for some } n
5 :: 5 \text{ for all } n, 6 \text{ otherwise}
12 :: 12 \text{ for } x = 3
(2, \infty) :: (2, \infty), x \in \mathbb{Z}
\text{true} :: \text{true for some } n
"""

# These are compared as texts.
UNREADABLE_RIGHT = r"""
1, 2, \ldots, n :: 1,2,\dots,n // 1,2,...,n // The answer is $1, 2, \ldots, n$.
\{x \mid x > 2\} :: \{ x | x > 2 \}
a_1 + a_2 + \cdots + a_n :: a_1+a_2+\dots+a_{n}
f'(x) :: f'\left(x\right)
1/2x :: 1/2 x
"""
UNREADABLE_WRONG = r"""
1, 2, \ldots, n :: 1, 3, 5, \ldots, 2n-1 // n // 5 // not 1, 2, \ldots, n
f'(x) :: g'(x)
\triangle ABC \sim \triangle DEF :: \triangle ABC \sim \triangle DFE
\{x \mid x > 2\} :: \{x \mid x > 3\}
a_1 + a_2 + \cdots + a_n :: a_1+a_2+\dots+a_{n-1}
\vec{a} \perp \vec{b} :: \vec{a} \parallel \vec{b}
1/2x :: \frac{x}{2}
(1, :: (2,
5'6'' :: 5'7''
"""

LARGE_RIGHT = r"""
2^{1000000} :: 4^{500000}
2006! :: 2006 \cdot 2005!
\frac{1}{2006!} :: \frac{1}{2006 \cdot 2005 \cdot 2004!}
\frac{1}{2^{20040}} :: 2^{-20040}
\binom{1000000}{400000} :: \binom{1000000}{600000}
{10000 \choose 5000} :: \binom{10000}{5000}
10^{10^{10}} :: 10^{10000000000}
9^{9^{9^{9}}} :: 3^{2 \cdot 9^{9^{9}}}
(x+1)^{1000000} :: (1+x)^{1000000}
x^{3000}-1 :: (x^{1500}-1)(x^{1500}+1)
5^{3000} \sqrt{8} :: 2 \cdot 5^{3000} \sqrt{2}
\sqrt[3]{2^{9000}} :: 2^{3000}
(\sqrt{3}-\sqrt{2})^{4000} :: (5-2\sqrt{6})^{2000}
x < 10^{100000} :: 10^{100000} > x
"""
LARGE_WRONG = r"""
\frac{1}{2004!} :: \frac{1}{2006!}
2^{1000000} :: 2^{1000001} // 2^{1000061}
5000! - 1 :: 5000!
\binom{10000}{5000} :: \binom{10000}{4999}
\binom{10^7}{5 \cdot 10^6} :: \binom{10^7}{5 \cdot 10^6 - 1}
\frac{2^{100000}-1}{3} :: \frac{2^{100000}+1}{3}
9^{9^{9}} :: 9^{9^{9}}+1
7^{7^{7^{7}}} :: 7^{7^{7^{8}}}
2^{10^{100}-1} :: 2^{10^{100}+1}
(x+1)^{1000000} :: (x-1)^{1000000}
(x+y+z)^{200} :: (x+y-z)^{200}
(\sqrt{-4})^{3001} :: 2^{3001}
5^{3000} \sqrt{2} :: -5^{3000} \sqrt{2}
\sqrt{2^{3000}-1} :: \sqrt{2^{3000}+1}
\sum_{k=1}^{100000} 2^k :: \sum_{k=1}^{100001} 2^k
(0, 10^{100000}) :: 0 < x < 10^{100001}
\sqrt{2} :: 9^{9^{9^{9}}} // (10^{10})! // \gcd(9^{9^9}, 3) // i^{9^{9^{9}}} // \sqrt[9^{9^9}]{2}
x^2 :: x^{10^{10^{10}}} // (x+1)^{10000000}
"""

WORDS_RIGHT = r"""
\text{valid} :: The sequence is valid // It is valid. // Valid
\text{even} :: Even // The function is even
"""
WORDS_WRONG = r"""
\text{valid} :: The sequence is invalid // The sequence is not valid // validity
\text{even} :: \text{seven} // The number is uneven
\text{true} :: untrue
\text{possible} :: It is impossible
\text{rational} :: The number is irrational
\text{finite} :: infinite
yes :: yesterday
no :: I know
"""

# Here completions are written out; a sign of a paragraph is a line break.
CHOICES_RIGHT = r"""
\text{(D)} :: \boxed{\langle H\rangle \ll \Delta E} ¶ **Answer: D** // \boxed{} ¶ Answer: D //
    \boxed{\frac{1}{2}mv^2} ¶ The answer is (D). // \boxed{x>3} ¶ #### D //
    \boxed{\text{the largest energy}} ¶ The correct option is D. //
    \boxed{D}, because \boxed{x>3} // <answer>\boxed{x>3} Answer: D</answer> //
    \boxed{x>3} ¶ The correct answer is option D
D :: \boxed{\langle H\rangle \ll \Delta E} ¶ **Answer: D** // So $\boxed{4.2}$. ¶ Answer: (D)
\textbf{(B)} :: \boxed{12} ¶ Final answer: B // \boxed{A^2} ¶ The best choice is (B).
"""
CHOICES_WRONG = r"""
\text{(D)} :: \boxed{x>3} ¶ Answer: C // \boxed{A or D} ¶ Answer: D // \boxed{C} ¶ Answer: D //
    \boxed{x>3} ¶ The answer is not D. // \boxed{x>3} ¶ Answer: C or D // \boxed{x>3} //
    \boxed{A, D} ¶ Answer: D // \boxed{\text{not D}} ¶ Answer: D //
    <answer>\boxed{x>3}</answer> Answer: D
\text{(B)} :: Option A is wrong. Option C is wrong. \boxed{x}
C :: \boxed{c} // \boxed{x + C}
"""

# The answer that was to stand in a box that is cut off is not known; an earlier one was given up.
CUT_OFF_RIGHT = r"""
12 :: \boxed{1 is what I had. The answer is 12. // in \boxed{ we write: \boxed{12} //
    \boxed{1 was wrong. ¶ #### 12 // \boxed{\frac{24}{2} = \boxed{12}
"""
CUT_OFF_WRONG = r"""
12 :: \boxed{12} wait: \boxed{1 // \boxed{12}. Checking again, \boxed{12 //
    so \boxed{12}, \fbox{1 // The answer is 12. \boxed{\frac{ // #### 12 ¶ so \boxed{1 //
    <answer>\boxed{12} \boxed{1</answer>
\frac{1}{2} :: \boxed{\frac{1}{2}} no, \boxed{\frac{1}{
"""


# A box without braces (lm-evaluation-harness 3477) holds one value, and words are none.
BARE_BOXES_RIGHT = r"""
7 :: \boxed 7 // \boxed7 // so $\boxed 7$. // \fbox 7 // \boxed 7, as was to be shown //
    \boxed 3 is wrong, so \boxed 7 // $\boxed 7 = 3 + 4$ // $\boxed{\boxed 7}$ // (so \boxed 7)
-12.5 :: \boxed -12.5 // \boxed-12.5.
1,000 :: \boxed 1,000 people
\frac12 :: \boxed\frac12 // \boxed \frac12 // \boxed\frac 12 // \boxed\frac{1}{2} //
    $$\boxed\dfrac{1}{2}$$ // \(\boxed \frac{1}{2}\)
2\sqrt{3} :: \boxed 2\sqrt{3} // \boxed{}2\sqrt3, that is \boxed 2\sqrt3
x+1 :: $\boxed x+1$
(1,2) :: \boxed (1, 2)
\text{even} :: \boxed\text{even}
x :: so $\boxed x$.
1, 2 :: $\boxed 1$ and $\boxed 2$
"""
BARE_BOXES_WRONG = r"""
7 :: \boxed 8 // \boxed 70 // \boxed7x // \boxed 8 = 7 // \boxed 3 + 4 //
    write 7 in \boxed form // \boxed // \boxed 7 no: \boxed 8 // \boxed 7 no: \boxed{ //
    \boxed the 7
1 :: \boxed 12
\frac12 :: \boxed\frac13 // \boxed\frac // \boxed 1 /2
a :: put it in \boxed a number
"""

SETS_RIGHT = r"""
\{1,2,3,4\} :: \{1,3\}\cup\{2,4\} // \{1\} \cup \{2\} \cup \{3,4\} // \{1,2,3\} \cup \{3,4\} //
    \emptyset \cup \{1,2,3,4\} // \{1,2\} ∪ \{3,4\}
\{1,3\}\cup\{2,4\} :: \{1,2,3,4\} // 1,2,3,4 // \{4,2\} \cup \{3,1\}
\{1,3\} \cup \{3,4\} :: 1, 3, 4
\{a,b\} :: \{b\} \cup \{a\}
(1,3) :: (1,2) \cup [2,3)
(1,2) \cup [2,3) :: (1,3)
[0,1] \cup \{2\} :: \{2\} \cup [0,1] // \{2\} \cup 0 \le x \le 1
[-2,2] :: |x| \le 2 // 2 \ge |x| // \left|x\right| \leq 2 // \lvert x \rvert \le 2 //
    \{x \mid -2 \le x \le 2\} // \{x \in \mathbb{R} : |x| \le 2\} // x \ge -2 \text{ and } x \le 2
|x| \le 2 :: [-2,2] // -2 \le x \le 2
(-\infty,-2)\cup(2,\infty) :: |x|>2 // \{x \mid x<-2 \text{ or } x>2\}
\mathbb{R} :: (-\infty,\infty) // -\infty < x < \infty // \text{all real numbers} // \mathbb R //
    x \in \mathbb{R} // ℝ // The domain is all real numbers.
(-\infty,\infty) :: \mathbb{R} // All real numbers
\text{all real numbers} :: (-\infty, \infty) // \mathbb{R} // All real numbers.
(-\infty,0)\cup(0,\infty) :: x \ne 0 // \mathbb{R} \setminus \{0\} // \mathbb{R} - \{0\}
(2,\infty) :: \{x \mid x>2\} // \{x : 2<x\} // \mathbb{R} \setminus (-\infty,2]
"""
SETS_WRONG = r"""
\{1,2,3,4\} :: \{1,3\}\cup\{2,5\} // \{1,3\}\cup\{2\} // \{1,3\}\cap\{2,4\} // (1,3)\cup(2,4) //
    \{1,2\}\cup\{3,4,5\} // [1,4] // \{1,2,3,4\} \setminus \{4\}
\{1,3\}\cup\{2,4\} :: \{1,2,3\} // \{1,3\} // (1,2,3,4)
\{1,2\} :: [1,2] // (1,2) // \{1\} \cup 2
(1,3) :: (1,2) \cup (2,3) // \{1\} \cup \{3\} // (1,2) \cup [2,3]
[-2,2] :: |x|<2 // |x| \le 3 // |x| \ge 2 // x^2 \le 4 // |2x| \le 4 // |x-1| \le 1 // \{-2,2\} //
    x \ge -2 \text{ or } x \le 2 // x \ge -2 \text{ and } y \le 2 //
    \{x \in \mathbb{Z} : |x| \le 2\}
\mathbb{R} :: (0,\infty) // \mathbb{Z} // \mathbb{Q} // \mathbb{C} // R // \emptyset // x \ne 0 //
    \text{all integers} // \text{not all real numbers} //
    [-\infty,\infty] // \mathbb{R} \setminus \{0\}
\text{all real numbers} :: \mathbb{Z} // (0,\infty) // \text{no real numbers}
(-\infty,0)\cup(0,\infty) :: x \ne 1 // \mathbb{R} // \{0\}
(2,\infty) :: \{x \mid x \ge 2\} // \{x \in \mathbb{Z} \mid x > 2\} // \{y \mid x > 2\}
"""

# A fraction may have two minus signs; what stands behind a bracket belongs to the number.
SIGNS_RIGHT = r"""
\frac{1}{16} :: -\frac{-1}{16} // \frac{-1}{-16} // - \dfrac{ -1 }{16} //
    x = -\frac{-1}{16} // -\tfrac{-2}{32}
-\frac{1}{3} :: \frac{-1}{3} // \frac{1}{-3} // -\frac{-1}{-3} // -\frac{1}{3}
5 :: (5) // \left(5\right) // [5] // (5). // \frac{-10}{-2}
"""
SIGNS_WRONG = r"""
\frac{1}{16} :: \frac{-1}{16} // -\frac{1}{16} // -\frac{-1}{-16} //
    2-\frac{-1}{16} // \frac{1}{-16}
-\frac{1}{3} :: -\frac{-1}{3} // \frac{-1}{-3}
5 :: (5)! // \left(5\right)! // [5]! // ((5))! // (5)' // (5)^2 // 5! // 5!!
120 :: (120)! // \frac{-120}{1}
"""

# An answer that is taken back is none; one is in its place if the text states it.
RETRACTED_RIGHT = r"""
7 :: \boxed{7}. Wait, let me double-check: 3 + 4 = 7. Yes, the answer is 7. //
    \boxed{7}. No other solution exists. // \boxed{7}. Actually, this is well known. //
    \boxed{7}. A common mistake is to say that the answer is 8. //
    \boxed{7}. If you forget to carry, the answer is 8, which is wrong. //
    \boxed{7}. Is the answer 8? No, it is 7. // \boxed{7}. No, the answer is not 8. //
    \boxed{7}. Wait, is that wrong? No, it is right. // \boxed{7}, not 8. Hmm, nice. //
    \boxed{7}. Wait, let me verify: it is 3 groups of 4, less 5. //
    \boxed{7}. Let me recheck. We had 3 and 4. The answer is correct. //
    \boxed{7}. I made a mistake, I thought. But the answer is correct. //
    \boxed{7} ¶ Actually, let me verify: $3 + 4 = 7$. ¶ So the answer is indeed 7. //
    \boxed{7} ¶ Hmm, wait. The answer is 7 because 3 + 4 = 7. //
    \boxed{7}. There is no need for more: it is done. // \boxed{7} ¶ Note: it is 8 in base 7. //
    \boxed{7}. Some would say: no, the answer is 8. // \boxed{7}. Sorry for the long text. //
    \boxed{7} ¶ Question: What is 4 + 4? ¶ Actually, the answer is 8. //
    \boxed{7}. Check 8: we get 5 = 6. That is wrong. So only 7 is left. //
    \boxed{7}. Is there another? No. It is 3 groups of 4, less 5. //
    \boxed{7}. Sorry for the long text. It is 3 groups of 4, less 5. //
    \boxed{7}. It is not wrong. //
    \boxed{7}. Is it 8? No, that is wrong. // \boxed{7}. No remainder is left; that is it. //
    \boxed{7}. Check 8: that is wrong, 8 is not prime. // <answer>7</answer> I am sure. //
    \boxed{8}. Actually no, the answer is 7. // \boxed{8}. No, wait, it should be 7. //
    The answer is 8. Wait, I made a mistake. It should be 7. // #### 8 ¶ Correction: 7 //
    \boxed{8}. Actually no, \boxed{7} is the answer. // <answer>8</answer> Sorry, I meant 7.
8 :: <answer>8</answer> Let me double-check: 2*4 = 8, so 4 is right. //
    #### 8 ¶ Wait, the problem says 3 bags. 3 is correct, and 3+5 = 8. //
    \boxed{8}. Actually, that is 4 + 4. // \boxed{8}. Hmm. It is $2 \times 4$. //
    \boxed{8}. No, there are no other costs. It is 3 + 5. // \boxed{8}. No, it is \$3 + \$5. //
    \boxed{\$8.00}. No, there are no other costs. The answer is 2 * 4 dollars. //
    \boxed{9}. Wait, 8 is the correct answer. // \boxed{9}. No, 8 is right. //
    The answer is 8. I checked, and this answer is correct. //
    Answer: 8 ¶ This answer is in dollars.
\frac{1}{2} :: \boxed{\frac{1}{2}}. Wait, let me check. So the answer is $\frac{1}{2}$. //
    \boxed{1}. Actually no, the answer is $\frac12$.
\text{(D)} :: \boxed{D}. Wait, option C is wrong. // \boxed{C}. Actually no, the answer is D.
\text{east} :: \boxed{west}. No, the answer is east.
"""
RETRACTED_WRONG = r"""
7 :: \boxed{7}. Actually no, the answer is 8. // \boxed{7}. Wait, the answer is 8. //
    \boxed{7}. Hmm, no. It should be 8. // \boxed{7}. Wait, that is wrong. //
    \boxed{7}. Correction: 8. //
    \boxed{7}. On second thought, the answer is $8$. // \boxed{7}. Sorry, I meant 8. //
    \boxed{7} ¶ Wait, I made a mistake. 4 + 4 is more. The correct answer is 8. //
    \boxed{7}. I made an error. // \boxed{7}. Scratch that. // $\boxed{7}$. No, it's 8. //
    \boxed{7}. Actually, it's 8. // \boxed{7}. Oh no, I was wrong: the answer is 8. //
    \boxed{7}. My answer above is incorrect. // \boxed{7}. Actually no, 8 is the correct answer. //
    \boxed{7}. Let me correct that: the final answer is 8. // \boxed{7}. No, the answer is eight. //
    <answer>7</answer> Actually no, the answer is 8. // #### 7 ¶ Actually no, the answer is 8. //
    The answer is 7. Actually no, it is 8. // \boxed 7. Actually no, the answer is 8. //
    \boxed{7}. Hmm. That is not right. // \boxed{7}. Is it right? No, the answer is 8. //
    \boxed{7}. Wait, that’s wrong. It’s 8. // \boxed{8}. Wait, let me check. The answer is 8.
8 :: \boxed{8}. No, it is 4 + 5. // \boxed{8}. Wait, the answer is 4 + 5. //
    \boxed{8}. Wait, 9 is the correct answer. // \boxed{8}. No, 9 is correct. //
    \boxed{8}. I made a mistake: it is 4 + 4. // \boxed{9}. No, it is 4 + 4. //
    \boxed{9}. Actually, it is 4 + 4. // \boxed{8x}. No, it is 4 + 4.
\text{(D)} :: \boxed{D}. Actually no, the answer is C. // \boxed{D}. Wait, that is wrong. //
    Answer: D. Actually no, the answer is option C.
\text{east} :: \boxed{east}. Actually no, the answer is west.
\sqrt{2} :: \boxed{\sqrt{2}}. Wait, I made a mistake. The answer is $\sqrt{3}$.
"""


def refused(table, expected):
    """The pairs of a table that the task `math` grades otherwise, with its grade.

    The deadline is long, for a busy machine: what is not decided at once is not in a minute.
    """
    pairs = [(gold, answer.replace(" ¶ ", "\n")) for gold, answer in read_table(table)]
    completions = [text if declares(text) else rf"\boxed{{{text}}}" for _, text in pairs]
    rows = [{"answer": gold} for gold, _ in pairs]
    grades = get_task("math", deadline=60.0).grade_batch(completions, rows)
    return [
        (gold, text, grade.answer)
        for (gold, text), grade in zip(pairs, grades, strict=True)
        if grade.answer is not expected
    ]


def declares(text):
    return any(sign in text for sign in ("box", "nswer", "####", "Option"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(ORDINALS_RIGHT, ORDINALS_WRONG, id="ordinals"),
        pytest.param(MODULI_RIGHT, MODULI_WRONG, id="moduli"),
        pytest.param(CLAUSES_RIGHT, CLAUSES_WRONG, id="clauses"),
        pytest.param(UNREADABLE_RIGHT, UNREADABLE_WRONG, id="gold answers that cannot be read"),
        pytest.param(LARGE_RIGHT, LARGE_WRONG, id="large numbers"),
        pytest.param(WORDS_RIGHT, WORDS_WRONG, id="words"),
        pytest.param(CHOICES_RIGHT, CHOICES_WRONG, id="choices"),
        pytest.param(CUT_OFF_RIGHT, CUT_OFF_WRONG, id="boxes that are cut off"),
        pytest.param(BARE_BOXES_RIGHT, BARE_BOXES_WRONG, id="boxes without braces"),
        pytest.param(SETS_RIGHT, SETS_WRONG, id="sets"),
        pytest.param(SIGNS_RIGHT, SIGNS_WRONG, id="two signs, and signs behind brackets"),
        pytest.param(RETRACTED_RIGHT, RETRACTED_WRONG, id="answers that are taken back"),
    ],
)
def test_what_was_reported_of_graders_is_right_here_and_what_looks_like_it_is_wrong(right, wrong):
    assert refused(right, True) == []
    assert refused(wrong, False) == []


#: More than a long answer with its thoughts has, and nothing of it is about the answer.
CHATTER = "And so on: we add, we look, we are done. " * 1_000


@pytest.mark.parametrize("name", ["math", "gsm8k"])
@pytest.mark.parametrize(
    "answer", [r"\boxed{42}", r"\boxed 42", "#### 42", "The answer is 42.", r"$$\fbox{42}$$"]
)
def test_an_answer_counts_however_much_follows_it(name, answer):
    task = get_task(name)
    row = {"question": "", "answer": "42"}
    for text in (f"{answer}\n{CHATTER}", f"{CHATTER}\n{answer}\n{CHATTER}"):
        assert len(text) > 40_000
        assert task.grade(text, row).answer is True

    later = [r"\boxed{43}", r"\boxed{43", "Actually no, the answer is 43.", "Wait, that is wrong."]
    for end in later:
        assert task.grade(f"{answer}\n{CHATTER}\n{end}", row).answer is False, end
    assert task.grade(f"{answer}\n{CHATTER}", {**row, "answer": "43"}).answer is False


@pytest.mark.parametrize("name", ["math", "gsm8k"])
def test_a_batch_with_empty_completions_has_a_score_for_each_in_order(name):
    task = get_task(name)
    completions = [
        answered("7"),
        "",
        "no answer here",
        r"\boxed{7}",
        "<answer></answer>",
        r"\boxed{",
        " ",
        answered("8"),
        "",
    ]
    right = [True, False, False, True, False, False, False, False, False]
    rows = [{"question": "", "answer": "7"}] * len(completions)
    assert [grade.answer for grade in task.grade_batch(completions, rows)] == right

    correctness, form, tags = task.rewards("every")
    columns = {"answer": ["7"] * len(completions)}
    assert correctness(completions=completions, **columns) == [float(grade) for grade in right]
    assert form(completions=completions, **columns) == [0.1, 0, 0, 0, 0, 0, 0, 0.1, 0]
    assert tags(completions=completions, **columns) == [0.1, 0, 0, 0, 0, 0, 0, 0.1, 0]


def test_a_batch_that_goes_through_the_grading_processes_comes_back_in_order():
    before = COUNTS["graded"]
    golds = [r"\sqrt{8}", r"\sqrt{8}", "x+1", "x+1", r"\sqrt{8}", "(1,2]", "x+1"]
    completions = [
        r"\boxed{2\sqrt{2}}",
        "",
        r"\boxed{1+x}",
        "nothing",
        r"\boxed{3\sqrt{2}}",
        r"1 < x \le 2",
        r"\boxed{}",
    ]
    grades = get_task("math").grade_batch(completions, [{"answer": gold} for gold in golds])
    assert [grade.answer for grade in grades] == [True, False, True, False, False, False, False]
    assert COUNTS["graded"] - before == 3


EMPTY = ["", " ", "\n\n", r"\boxed{}", "$$", "$ $", "****", "``", "\u200b", r"\(\)", r"$\boxed{ }$"]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("content", EMPTY)
def test_an_empty_answer_earns_nothing_not_even_for_its_form(content, mode):
    task = get_task("math", mode=mode)
    for text in (
        f"<think></think><answer>{content}</answer>",
        f"<think>\nfour words of thought\n</think>\n<answer>{content}</answer>",
    ):
        assert task.grade(text, {"answer": "7"}) == (False, False)
        for form in ("wrong", "every"):
            earned = [reward(completions=[text], answer=["7"]) for reward in task.rewards(form)]
            assert earned == [[0.0], [0.0], [0.0]]


@pytest.mark.parametrize("content", ["0", "x", "no", r"\emptyset", r"\boxed{0}", "-", r"\text{a}"])
def test_a_wrong_answer_earns_its_form_however_short_it_is(content):
    text = f"<think></think><answer>{content}</answer>"
    earned = [reward(completions=[text], answer=["7"]) for reward in get_task("math").rewards()]
    assert earned == [[0.0], [0.1], [0.1]]
